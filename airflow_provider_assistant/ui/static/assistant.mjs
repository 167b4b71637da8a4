// The pages in Airflow's UI. The host renders globalThis[name] for each name in plugin.py.
