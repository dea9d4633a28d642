// Mount a source's video or canvas element in the view.
import { useLayoutEffect, useRef } from "preact/hooks";

export function MediaPreview(props: {
  element: HTMLVideoElement | HTMLCanvasElement;
  mirrored?: boolean;
  label: string;
}) {
  const { element, mirrored = false, label } = props;
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    element.setAttribute("aria-label", label);
    element.setAttribute("role", "img");
    place.current?.append(element);
    return () => element.remove();
  }, [element, label]);
  return (
    <div ref={place} class={mirrored ? "nbg-source-picture nbg-mirrored" : "nbg-source-picture"} />
  );
}
