// The layer in focus: the one under the pointer, else the selected one.
import { useViews } from "./context.ts";

/** Pointer enter and leave handlers of a stage; leaving a stage that is no longer the hovered one is a no-op. */
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
