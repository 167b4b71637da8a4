"""An auth manager whose users see and change some DAGs only."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class TeamAuthManager(SimpleAuthManager):
    """Let the user ``mine`` see only DAGs whose id starts with ``mine``. Others have the rights of their role."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        if user.username == "mine" and not (details and (details.id or "").startswith("mine")):
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
