// A small live thumbnail of the input after one manipulation, with the input's colours and range.
import { useEffect, useRef } from "preact/hooks";
import { displayStyle } from "../../../../network/display_kind.ts";
import type { Network } from "../../../../network/network.ts";
import type { ColorRange } from "../../../../plan/runtime.ts";
import type { Value } from "../../../../plan/schema.ts";
import { imageIndex, useViews } from "../../../../views/context.ts";
import { fitScale, px, tileSide } from "../../../../views/layout.ts";

/** Maximum side in CSS pixels. */
const MAX_THUMB_SIDE = 36;

/** Drawn directly rather than with `Maps`, which would read the values for each row on every frame. */
export function EditThumb(props: {
  network: Network;
  value: Value;
  range: ColorRange | undefined;
  label: string;
}) {
  const { network, value, range = { mode: "layer" }, label } = props;
  const { state, painter, theme, pixelRatio } = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [, count, height, width] = value.nchw;
  const colours = count === 3 || count === 4;
  const scale = fitScale(Math.max(height, width), MAX_THUMB_SIDE * pixelRatio.value);
  useEffect(() => {
    if (canvas.current === null) return;
    painter.show(canvas.current, {
      key: value.key,
      image: imageIndex(value, network, state.example.value),
      channels: colours ? Array.from({ length: count }, (_, k) => k) : [0],
      columns: 1,
      gap: 0,
      scale,
      colormap: state.colormap.value,
      theme: theme.value,
      range,
      drawMode: colours ? "rgb" : displayStyle(value).isImage ? "grey" : "maps",
    });
  });
  useEffect(() => {
    const element = canvas.current;
    return () => {
      if (element !== null) painter.forget(element);
    };
  }, [painter]);
  const size = {
    width: px(tileSide(width, scale) / pixelRatio.value),
    height: px(tileSide(height, scale) / pixelRatio.value),
  };
  return (
    <span class="nbg-manipulate-thumb">
      <canvas ref={canvas} role="img" aria-label={label} data-maps={value.key} style={size} />
    </span>
  );
}
