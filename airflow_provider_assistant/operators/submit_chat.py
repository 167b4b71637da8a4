"""The operator that submits an async chat: ``POST …/chat/async``."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import check_rendered
from airflow_provider_assistant.ledger.chats import submitted_at
from airflow_provider_assistant.operators.links import AssistantRequestLink
from airflow_provider_assistant.operators.message import AssistantMessageOperator


class AssistantSubmitChatOperator(AssistantMessageOperator):
    """
    Submit an async chat (``POST …/chat/async``) and return the id of its request.

    :class:`~airflow_provider_assistant.sensors.chat.AssistantChatRequestSensor` waits for the answer. The operator
    records the submission in the ledger before and after it sends it: a retried or cleared task returns the request
    that it already submitted, unless a sensor found that it failed or that the service lost it. If earlier attempts may
    have been submitted as well, the operator logs their minimum number and pushes it to XCom as
    ``possibly_duplicated``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/ask/chat`

    A cleared task returns the request of its earlier run as well.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.message.AssistantMessageOperator`.
    """

    operator_extra_links = (AssistantRequestLink(),)

    # Read by AssistantRequestLink.
    request_id: str | None = None

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Submit the chat, unless an earlier try did.

        :return: ``request_id``, ``session_id``, ``site_id``, and ``submitted_at`` in seconds since the epoch.
        :raises AssistantAmbiguousError: The chat may or may not have been submitted.
            With ``on_ambiguous="fail"``, Airflow does not retry the task.
        :raises AirflowSkipException: The chat may have been submitted, and ``on_ambiguous`` is ``skip``.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        site = self.hook.site()
        call = endpoints.submit_chat(site.site_id, self._chat_message())
        key = self._key(context, call, is_new_after_clear=False)
        moment = None
        with self._attempts(context, "chat") as (ledger, requests):
            attempts = requests.known([key]).get(key, [])
            if attempts and attempts[-1].state == "created" and attempts[-1].remote_id:
                self.request_id = attempts[-1].remote_id
                moment = submitted_at(ledger, site, self.request_id)
                self.log.info("An earlier try submitted this chat as request %r.", self.request_id)
            else:
                self.request_id = self._ask(context, requests, call, key, attempts, "async").request_id
                self.log.info("Site %r accepted the chat as request %r.", site.site_id, self.request_id)
        return {
            "request_id": self.request_id,
            "session_id": self.session_id,
            "site_id": site.site_id,
            "submitted_at": moment.timestamp() if moment else self.hook.client.now(),
        }
