// The picture of a video: what the network takes of it, and the drawer shows.

export interface FramePreview {
  readonly element: HTMLVideoElement | HTMLCanvasElement;
  /** The frame of now. */
  captureFrame(): void;
}

/**
 * The video itself. On a software renderer a canvas that has what went in last, decoded once for both: a browser that
 * composes the page on the processor is busy with thirty frames a second of a video, and leaves the network a tenth.
 */
export function createFramePreview(video: HTMLVideoElement, software: boolean): FramePreview {
  if (!software) return { element: video, captureFrame: () => undefined };
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
