// Which layer the eye is on: the one under the pointer, else the selected one.
import { useViews } from "./context.ts";

/** Enter and leave of a stage; leaving one that is no longer under the pointer changes nothing. */
export function useLayerHover() {
  const { hoveredLayer } = useViews();
  return {
    enter: (layer: string): void => {
      hoveredLayer.value = layer;
    },
    leave: (layer: string): void => {
      if (hoveredLayer.peek() === layer) hoveredLayer.value = null;
    },
  };
}
