"""Render the report of an evaluation as one self-contained HTML file."""

from airflow_provider_assistant.evaluation.report.page import GENERATOR, render

__all__ = ["GENERATOR", "render"]
