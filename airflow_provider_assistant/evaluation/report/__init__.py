"""Render the report of an evaluation as one self-contained HTML file."""

from airflow_provider_assistant.evaluation.report.page import GENERATOR, owner_tag, render

__all__ = ["GENERATOR", "owner_tag", "render"]
