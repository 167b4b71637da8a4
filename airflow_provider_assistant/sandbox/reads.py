"""The routes that read what tenants, sites and users have and use.

The specification shows the limits and the statistics of a site; an older text names the others.
"""

import re
from datetime import date
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BeforeValidator

from airflow_provider_assistant.sandbox import schemas, usage
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.history import site_history
from airflow_provider_assistant.sandbox.paging import PageQuery, read_page
from airflow_provider_assistant.sandbox.refusals import READ_REFUSALS, refusal
from airflow_provider_assistant.sandbox.requests import Embedded, SiteCaller, TenantKey
from airflow_provider_assistant.sandbox.statistics import site_statistics
from airflow_provider_assistant.sandbox.timestamps import month

Email = Annotated[str, Path(description="The e-mail address of a user, as sent with messages.")]
# Other texts, such as a number of seconds, are not dates here.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _date_text(value: Any) -> Any:
    if isinstance(value, str) and not _DATE.fullmatch(value):
        raise ValueError("must be a date such as 2027-01-31")
    return value


Day = Annotated[date, BeforeValidator(_date_text)]
_INVALID: dict[int | str, dict[str, Any]] = {400: refusal("A query parameter is not valid")}

router = APIRouter(prefix="/m2m", responses=READ_REFUSALS)


@router.get("/tenants/{tenant_id}")
async def get_tenant(key: TenantKey) -> schemas.TenantReply:
    """Read the tenant."""
    return schemas.TenantReply(
        tenant_id=key.tenant.tenant_id,
        plan=key.plan.name,
        sites=list(key.tenant.sites),
    )


@router.get("/tenants/{tenant_id}/limits", response_model_exclude_unset=True)
async def get_limits(service: Embedded, key: TenantKey) -> schemas.LimitsReply:
    """Read the tenant's limits."""
    return service.quotas.report(key, service.clock())


@router.get("/tenants/{tenant_id}/usage")
async def get_usage(service: Embedded, key: TenantKey) -> schemas.UsageReply:
    """Read how much the tenant uses."""
    period = month(service.clock())
    tenant_id = key.tenant.tenant_id
    tenant_usage = schemas.Usage(
        **usage.document_usage(service.database, tenant_id),
        messages=service.chats.sent[tenant_id, period],
    )
    return schemas.UsageReply(tenant_id=tenant_id, period=period, usage=tenant_usage)


@router.get(
    "/tenants/{tenant_id}/usage/history",
    response_model=schemas.UsageHistoryReply,
    responses=_INVALID,
)
async def get_usage_history(
    service: Embedded,
    key: TenantKey,
    first: Annotated[Day | None, Query(alias="from")] = None,
    last: Annotated[Day | None, Query(alias="to")] = None,
    days: Annotated[int, Query(ge=1)] = 30,
) -> dict[str, Any]:
    """Read how much the tenant used on each day, for at most 366 days."""
    history = usage.usage_history(
        service.database,
        key.tenant,
        first=first,
        last=last,
        days=days,
        now=service.clock(),
    )
    return {"tenant_id": key.tenant.tenant_id, "days": history}


@router.get(
    "/tenants/{tenant_id}/statistics",
    response_model=schemas.TenantStatisticsReply,
)
async def get_tenant_statistics(service: Embedded, key: TenantKey) -> dict[str, Any]:
    """Read the tenant's statistics."""
    return usage.tenant_statistics(service.database, key.tenant, service.clock())


@router.get("/sites/{site_id}", response_model=schemas.SiteReply)
async def get_site(caller: SiteCaller) -> dict[str, Any]:
    """Read the site."""
    return usage.site_record(caller.service.database, caller.key.tenant, caller.site)


@router.get(
    "/sites/{site_id}/statistics",
    response_model=schemas.StatisticsReply,
    response_model_exclude_unset=True,
)
async def get_statistics(caller: SiteCaller) -> dict[str, Any]:
    """Read the site's statistics."""
    service = caller.service
    now = service.clock()
    reply = site_statistics(service.database, caller.site, now)
    if service.settings.history:
        reply["daily"] = site_history(service.database, caller.site, service.settings, now)
    return reply


@router.get(
    "/sites/{site_id}/sessions",
    response_model=schemas.SessionsReply,
    response_model_exclude_unset=True,
    responses=_INVALID,
)
async def get_sessions(
    caller: SiteCaller,
    request: Request,
    response: Response,
    query: Annotated[PageQuery, Query()],
) -> dict[str, Any]:
    """List the site's conversations in the order of their opening."""
    database = caller.service.database
    page = read_page(
        request,
        query,
        caller.service.settings,
        fetch=partial(usage.sessions, database, caller.site),
        count=partial(usage.count_sessions, database, caller.site),
    )
    response.headers.update(page.headers)
    sessions = [usage.described_session(row) for row in page.rows]
    return {"sessions": sessions, **page.fields}


@router.get("/sites/{site_id}/users/{email}/statistics", response_model=schemas.UserStatisticsReply)
async def get_user_statistics(caller: SiteCaller, email: Email) -> dict[str, Any]:
    """Read the statistics of a user of the site."""
    statistics = usage.user_statistics(caller.service.database, caller.site, email)
    if statistics is None:
        raise ApiError(404, "There is no such user.", code="user_not_found", field="email")
    return statistics
