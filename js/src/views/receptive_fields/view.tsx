// The receptive field of a pixel in the network's input, and its projective field in the output.

import { useMemo } from "preact/hooks";
import type { FieldExtents } from "../../explain/field_extents.ts";
import {
  type MaskedRegion,
  markedShareText,
  maskedRegion,
  outlinePath,
  receptiveFieldText,
} from "../../explain/masked_region.ts";
import { elementMask, type Mask, pixelMask } from "../../explain/masks.ts";
import { FieldPropagator } from "../../explain/receptive_fields.ts";
import { coordinates, flatIndex } from "../../explain/tensor.ts";
import { channelCount, displayStyle } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import type { PlanHeader, Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { mapSize, SingleMap } from "../explain/marked_maps.tsx";
import { Maps } from "../maps.tsx";

/** The layer or input that produces a value, and its position axes. */
function producerOf(plan: PlanHeader, value: Value) {
  const layer = plan.layers[value.layer];
  if (layer !== undefined) return layer;
  const given = plan.values.filter((one) => one.kind === "input");
  const key = given.find((one) => one.texture === value.texture)?.key ?? value.key;
  const position_axes = plan.inputs.find((one) => one.key === key)?.position_axes ?? [];
  return { name: key, position_axes };
}

/** The pixels of a value's picture that are in a field. */
function coveredRegion(
  plan: PlanHeader,
  value: Value,
  masks: ReadonlyMap<string, Mask>,
): MaskedRegion {
  const { name, position_axes } = producerOf(plan, value);
  const { nchw } = value;
  const [, , height, width] = nchw;
  const mask = masks.get(name);
  const pixels = mask && pixelMask(mask, value.shape, position_axes, nchw);
  return maskedRegion(pixels ?? new Uint8Array(height * width), height, width);
}

export function FieldPictures(props: { network: Network; value: Value; y: number; x: number }) {
  const { network, value, y, x } = props;
  const { state } = useViews();
  const plan = state.plan.value;
  const channel = state.selected.value?.channel ?? 0;
  const fields = useMemo(() => plan && new FieldPropagator(plan), [plan]);
  const found = useMemo(() => {
    if (plan === null || fields === null) return null;
    const { name, position_axes } = producerOf(plan, value);
    const at = coordinates(value.shape, flatIndex(value.nchw, [0, channel, y, x]));
    const own = elementMask(value.shape, position_axes, at);
    return {
      from: fields.receptiveField(name, own),
      to: fields.projectiveField(name, own),
      theory: fields.theoreticalExtents(name, position_axes.length),
    };
  }, [plan, fields, value, channel, y, x]);
  if (plan === null || found === null) return null;
  const drawn = (one: Value): boolean =>
    (one.shape.length === 4 || one.shape.length === 3) && one.key !== value.key;
  const from = network.inputs.filter(drawn);
  const to = network.outputs.filter((one) => drawn(one) && one.texture !== value.texture);
  if (from.length + to.length === 0) return null;
  const of = value.nchw[2] * value.nchw[3] > 1 ? "pixel" : "value";
  return (
    <section class="nbg-fields" aria-label="Receptive and projective field">
      {from.map((one) => (
        <FieldPicture
          key={one.key}
          value={one}
          region={coveredRegion(plan, one, found.from)}
          elementNoun={of}
          theoreticalExtents={found.theory.get(producerOf(plan, one).name) ?? null}
          isReceptive
        />
      ))}
      {to.map((one) => (
        <FieldPicture
          key={one.key}
          value={one}
          region={coveredRegion(plan, one, found.to)}
          elementNoun={of}
        />
      ))}
    </section>
  );
}

interface FieldPictureProps {
  value: Value;
  region: MaskedRegion;
  /** The noun for the explained element: a pixel of a map, or a value. */
  elementNoun: "pixel" | "value";
  theoreticalExtents?: FieldExtents | null;
  isReceptive?: boolean;
}

/** CSS pixels of a map's picture, and of a curve. */
const MAP_SIZE = 220;
const CURVE_SIZE = { width: 300, height: 96 };

function FieldPicture({
  value,
  region,
  elementNoun,
  theoreticalExtents = null,
  isReceptive = false,
}: FieldPictureProps) {
  const { pixelRatio, state } = useViews();
  const curve = displayStyle(value).drawMode === "curves";
  const size = curve ? CURVE_SIZE : mapSize(value, MAP_SIZE, pixelRatio.value);
  // A curve runs from left to right, even for a vertical signal.
  const shown = useMemo(
    () => (curve ? maskedRegion(region.mask, 1, region.mask.length) : region),
    [curve, region],
  );
  const [down, along] = [size.height / shown.height, size.width / shown.width];
  const path = useMemo(() => outlinePath(shown, down, along), [shown, down, along]);
  const channel = Math.min(state.selected.value?.channel ?? 0, channelCount(value) - 1);
  const word = isReceptive ? "Receptive field" : "Projective field";
  const [where, gaps] = [
    receptiveFieldText(region, value.key, theoreticalExtents),
    markedShareText(region),
  ];
  const words = gaps ? `${where}; only ${gaps}` : where;
  const meaning = isReceptive
    ? `the input pixels that can affect this ${elementNoun}`
    : `the output pixels that this ${elementNoun} can affect`;
  // If the field has gaps, a thick outline would hide the pixels between them.
  const line = gaps === "" ? "" : "nbg-ray";
  const one = isReceptive ? 0 : channel;
  const label = `${word}: ${where}`;
  const over = (
    <svg class="nbg-overlay" width={size.width} height={size.height} aria-hidden="true">
      {curve && <path class="nbg-range" d={path} />}
      {["nbg-halo", "nbg-ink"].map((name) => (
        <g key={name} class={name}>
          <path class={line} d={path} />
        </g>
      ))}
    </svg>
  );
  return (
    <figure
      data-field={`${isReceptive ? "from" : "to"},${value.key}`}
      data-pixels={`${region.height}×${region.width}`}
    >
      <figcaption>
        <strong title={meaning}>{word}</strong> <span class="nbg-second">{words}</span>
      </figcaption>
      {curve ? (
        <Maps
          {...{ value, label }}
          channels={[one]}
          columns={1}
          scale={1}
          curveSize={CURVE_SIZE}
          showRank
        >
          {over}
        </Maps>
      ) : (
        <SingleMap {...{ value, label }} channel={one} room={MAP_SIZE}>
          {over}
        </SingleMap>
      )}
    </figure>
  );
}
