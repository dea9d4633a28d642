// Frame preview of a video: the element that the network samples and the drawer shows.

export interface FramePreview {
  readonly element: HTMLVideoElement | HTMLCanvasElement;
  /** Capture the current frame. */
  captureFrame(): void;
}

/**
 * The video element itself. On a software renderer, a canvas with the last captured frame, decoded once for both uses:
 * a browser that composites on the CPU would spend its time on thirty video frames a second and leave the network a
 * tenth.
 */
export function createFramePreview(
  video: HTMLVideoElement,
  isSoftwareRenderer: boolean,
): FramePreview {
  if (!isSoftwareRenderer) return { element: video, captureFrame: () => undefined };
  const canvas = Object.assign(document.createElement("canvas"), { width: 0, height: 0 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) return { element: video, captureFrame: () => undefined };
  return {
    element: canvas,
    captureFrame() {
      const { videoWidth: width, videoHeight: height } = video;
      if (video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA || width * height === 0) return;
      if (canvas.width !== width) canvas.width = width;
      if (canvas.height !== height) canvas.height = height;
      context.drawImage(video, 0, 0);
    },
  };
}
