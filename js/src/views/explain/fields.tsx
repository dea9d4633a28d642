// Where a pixel comes from in the network's input, and where it goes in its output.
import { useMemo } from "preact/hooks";
import { type Field, Fields } from "../../explain/fields.ts";
import type { Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { channelsOf, type Network } from "../network.ts";
import { mapSize, OneMap } from "./pixel.tsx";

/** The layer whose output a value is, where it isn't one itself. */
function nameOf(network: Network, value: Value): string {
  return (
    network.layers.findLast((layer) => network.values.get(layer.name)?.texture === value.texture)
      ?.name ?? value.key
  );
}

export function FieldPictures(props: { network: Network; value: Value; y: number; x: number }) {
  const { network, value, y, x } = props;
  const plan = useViews().state.plan.value;
  const rank = value.shape.length - 2;
  const found = useMemo(() => {
    if (plan === null || rank > 2) return null;
    const fields = new Fields(plan);
    const own: Field = (
      [
        [y, y],
        [x, x],
      ] as const
    )
      .slice(rank === 1 ? 1 : 0)
      .slice(0, Math.max(0, rank));
    const name = network.layers.some((layer) => layer.name === value.key)
      ? value.key
      : nameOf(network, value);
    return { from: fields.receptive(name, own), to: fields.projective(name, own) };
  }, [plan, network, value, rank, y, x]);
  if (found === null) return null;
  const drawn = (one: Value): boolean => one.shape.length === 4 && one.key !== value.key;
  const from = network.inputs.filter(drawn);
  const to = network.outputs.filter((one) => drawn(one) && one.texture !== value.texture);
  if (from.length + to.length === 0) return null;
  return (
    <section class="nbg-fields" aria-label="Receptive and projective field">
      {from.map((one) => (
        <FieldPicture key={one.key} value={one} field={found.from.get(one.key)} from />
      ))}
      {to.map((one) => (
        <FieldPicture key={one.key} value={one} field={found.to.get(nameOf(network, one))} />
      ))}
    </section>
  );
}

function FieldPicture(props: { value: Value; field: Field | undefined; from?: boolean }) {
  const { value, field, from = false } = props;
  const { ratio, state } = useViews();
  const [, , height, width] = value.frame;
  const size = mapSize(value, 150, ratio.value);
  const [[top, bottom] = [0, -1], [left, right] = [0, -1]] = field ?? [];
  const [down, along] = [size.height / height, size.width / width];
  const [rows, columns] = [bottom - top + 1, right - left + 1];
  const whole = rows === height && columns === width;
  const box = `M${left * along} ${top * down}h${columns * along}v${rows * down}h${-columns * along}z`;
  const channel = Math.min(state.selected.value?.channel ?? 0, channelsOf(value) - 1);
  const word = from ? "Receptive field" : "Projective field";
  const where =
    field === undefined
      ? `nothing of ${value.key}`
      : whole
        ? `all of ${value.key}`
        : `${rows}×${columns} of ${value.key}’s ${height}×${width}: y ${top} to ${bottom}, x ${left} to ${right}`;
  return (
    <figure data-field={[from ? "from" : "to", value.key, top, bottom, left, right].join()}>
      <figcaption>
        <strong>{word}</strong>{" "}
        <span class="nbg-second">
          {where}
          {from ? ", that this pixel can depend on" : ", that can depend on this pixel"}
        </span>
      </figcaption>
      <OneMap value={value} channel={from ? 0 : channel} room={150} label={`${word}: ${where}`}>
        {field !== undefined && (
          <svg class="nbg-over" width={size.width} height={size.height} aria-hidden="true">
            <path class="nbg-halo" d={box} />
            <path class="nbg-ink" d={box} />
          </svg>
        )}
      </OneMap>
    </figure>
  );
}
