"""Parts of Airflow that a deployment replaces: users who see and change some DAGs only, and where results are."""

from __future__ import annotations

import codecs
import json
from datetime import UTC, datetime

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.sdk.bases.xcom import BaseXCom


class TeamAuthManager(SimpleAuthManager):
    """Let the user ``mine`` see only DAGs whose id starts with ``mine``. Others have the rights of their role."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        if user.username == "mine" and not (details and (details.id or "").startswith("mine")):
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)


class ShiftedXComs(BaseXCom):
    """A backend that stores texts with other letters, and needs its storage to read them."""

    storage_answers = True

    @staticmethod
    def deserialize_value(result):
        if not ShiftedXComs.storage_answers:
            raise ConnectionError("sesame-1234")
        assert result.key == "return_value"
        return {
            **json.loads(codecs.decode(result.value, "rot13")),
            "moment": datetime(2026, 11, 26, tzinfo=UTC),
            7: {1, 2},
        }
