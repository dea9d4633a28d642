"""The video elements that a page creates, and the current frame of the last one."""

# All created videos, the newest first.
RECORD_VIDEOS_SCRIPT = """() => {
  globalThis.films = [];
  const create = document.createElement;
  document.createElement = function (name, ...options) {
    const made = create.call(this, name, ...options);
    if (name === 'video') films.unshift(made);
    return made;
  };
}"""
# The newest video's current frame, as a data: URL.
GRAB_FRAME_SCRIPT = """() => {
  const [video] = films;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext('2d').drawImage(video, 0, 0);
  return canvas.toDataURL();
}"""
