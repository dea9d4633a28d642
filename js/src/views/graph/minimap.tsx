// A minimap of a graph that is larger than its window: a frame marks the visible part.

import type { Camera } from "../../state.ts";
import { centerCamera, type Size } from "./camera.ts";
import type { GraphLayout } from "./node_boxes.ts";

/** The most CSS pixels of the minimap. */
const MAX_MINIMAP_SIZE = { width: 200, height: 60 };

export function Minimap(props: {
  layout: GraphLayout;
  camera: Camera;
  viewport: Size;
  setCamera: (camera: Camera) => void;
}) {
  const { layout, camera, viewport, setCamera } = props;
  const { width, height, nodes } = layout;
  const scale = Math.min(MAX_MINIMAP_SIZE.width / width, MAX_MINIMAP_SIZE.height / height);
  const go = (event: PointerEvent): void => {
    if (event.buttons !== 1) return;
    const map = event.currentTarget as Element;
    const box = map.getBoundingClientRect();
    map.setPointerCapture(event.pointerId);
    setCamera(
      centerCamera(
        camera,
        viewport,
        (event.clientX - box.x) / scale,
        (event.clientY - box.y) / scale,
      ),
    );
  };
  const { zoom } = camera;
  return (
    <svg
      class="nbg-minimap"
      width={width * scale}
      height={height * scale}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label="Overview of the graph, with the visible part"
      onPointerDown={go}
      onPointerMove={go}
    >
      {nodes.map(({ node, x, y, width, height }) => (
        <rect key={node.id} x={x} y={y} width={width} height={height} />
      ))}
      <rect
        class="nbg-here"
        x={-camera.x / zoom}
        y={-camera.y / zoom}
        width={viewport.width / zoom}
        height={viewport.height / zoom}
      />
    </svg>
  );
}
