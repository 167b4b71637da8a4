"""The endpoints that read limits and statistics."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.dependencies import SiteId, TenantId, authorize, refusals
from airflow_provider_assistant.sandbox.history import site_history
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.statistics import site_statistics


def account_routes(service: Service) -> APIRouter:
    """Return the endpoints that read limits and statistics.

    :param service: components of the sandbox.
    """
    router = APIRouter()

    @router.get(
        "/m2m/tenants/{tenant_id}/limits",
        response_model=schemas.LimitsReply,
        responses=refusals(),
    )
    async def get_limits(request: Request, tenant_id: TenantId) -> Response:
        """Read the tenant's limits."""
        key = authorize(request, tenant=tenant_id, write=False)
        return JSONResponse(service.quotas.report(key, service.settings, service.clock()))

    @router.get(
        "/m2m/sites/{site_id}/statistics",
        response_model=schemas.StatisticsReply,
        responses=refusals(),
    )
    async def get_statistics(request: Request, site_id: SiteId) -> Response:
        """Read the site's statistics."""
        authorize(request, site=site_id, write=False)
        now = service.clock()
        reply = site_statistics(service.database, site_id, now)
        if service.settings.history:
            reply["daily"] = site_history(service.database, site_id, service.settings, now)
        return JSONResponse(reply)

    return router
