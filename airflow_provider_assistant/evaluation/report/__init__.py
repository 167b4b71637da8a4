"""The report of an evaluation: one HTML file that needs nothing else."""

from airflow_provider_assistant.evaluation.report.page import GENERATOR, render

__all__ = ["GENERATOR", "render"]
