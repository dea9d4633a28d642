// Texts beside the picture of a Viewer without Python.

export const SNAPSHOT_ALT =
  "the network's input, some feature maps and its output as they were last";
export const SNAPSHOT_CAPTION = "Picture from the last run.";
