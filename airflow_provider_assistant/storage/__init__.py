"""Paths, uploads and files on local disks and object storage."""
