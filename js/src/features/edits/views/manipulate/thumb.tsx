// A small live picture of the input after one manipulation, in the colours and the range of the input itself.
import { useEffect, useRef } from "preact/hooks";
import { displayOf } from "../../../../network/display.ts";
import type { Network } from "../../../../network/network.ts";
import type { Range } from "../../../../plan/runtime.ts";
import type { Value } from "../../../../plan/schema.ts";
import { imageOf, useViews } from "../../../../views/context.ts";
import { fitScale, px, tileSide } from "../../../../views/layout.ts";

/** CSS pixels that it has room for. */
const SIDE = 36;

/** Not `Maps`: that asks for the numbers of what it shows, and each row would with every frame. */
export function Thumb(props: {
  network: Network;
  value: Value;
  range: Range | undefined;
  label: string;
}) {
  const { network, value, range = { mode: "layer" }, label } = props;
  const { state, painter, theme, ratio } = useViews();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [, count, height, width] = value.nchw;
  const colours = count === 3 || count === 4;
  const scale = fitScale(Math.max(height, width), SIDE * ratio.value);
  useEffect(() => {
    if (canvas.current === null) return;
    painter.show(canvas.current, {
      key: value.key,
      image: imageOf(value, network, state.example.value),
      channels: colours ? Array.from({ length: count }, (_, k) => k) : [0],
      columns: 1,
      gap: 0,
      scale,
      map: state.colormap.value,
      theme: theme.value,
      range,
      as: colours ? "rgb" : displayOf(value).image ? "grey" : "maps",
    });
  });
  useEffect(() => {
    const element = canvas.current;
    return () => {
      if (element !== null) painter.forget(element);
    };
  }, [painter]);
  const size = {
    width: px(tileSide(width, scale) / ratio.value),
    height: px(tileSide(height, scale) / ratio.value),
  };
  return (
    <span class="nbg-manipulate-thumb">
      <canvas ref={canvas} role="img" aria-label={label} data-maps={value.key} style={size} />
    </span>
  );
}
