"""The videos that a page makes, and the current frame of the last one."""

# Videos that are made, the last one first.
RECORD_VIDEOS = """() => {
  globalThis.films = [];
  const create = document.createElement;
  document.createElement = function (name, ...options) {
    const made = create.call(this, name, ...options);
    if (name === 'video') films.unshift(made);
    return made;
  };
}"""
# The last video's frame, as a data: URL.
GRAB_FRAME = """() => {
  const [video] = films;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext('2d').drawImage(video, 0, 0);
  return canvas.toDataURL();
}"""
