// The pages in Airflow's UI. Airflow renders globalThis[name] of the name in plugin.py. The module runs as it is:
// Airflow provides React, and nothing is compiled.

import { h } from "./core.mjs";
import { Page } from "./page.mjs";
import { TaskTab } from "./task.mjs";

/** The tab of a task instance and the page have the same label, so they share this component. */
function Assistant(props) {
  const { dagId, runId, taskId, mapIndex } = props;
  // The key begins a new tab for another task: nothing of the last one stays.
  return taskId ? h(TaskTab, { ...props, key: [dagId, runId, taskId, mapIndex].join("\n") }) : h(Page);
}

globalThis["Assistant"] = Assistant;
globalThis.AirflowPlugin = Assistant;
