// A convolution's number: the patch under the filter, times the filter, tap by tap.
import { useSignal } from "@preact/signals";
import type { Patch, Sliding } from "../../explain/products.ts";
import type { Line, Lines, Phased } from "../../explain/window.ts";
import type { Layer, Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { exact, full } from "../format.ts";
import { largest, px } from "../layout.ts";
import { useShown, useSigned } from "./colors.ts";
import { byContribution, Contributions } from "./contributions.tsx";
import { type Cell, Figure, Matrix, Sign } from "./matrix.tsx";
import { Num } from "./number.tsx";
import { InputMap, mapSize } from "./pixel.tsx";

const SIGN = 34;
const GAP = 40;
/** CSS pixels of the input's picture. */
const INPUT = 240;
/** A larger kernel is told by its channels alone. */
const MOST_TAPS = 1024;

/** "rows 19–22, columns 15–18"; with gaps, "rows 3, 5, 7". */
function span(lines: readonly Line[]): string {
  const [first, last] = [lines[0]?.at ?? 0, lines.at(-1)?.at ?? 0];
  if (first === last) return String(first).replace("-", "−");
  const close = last - first === lines.length - 1;
  const words = close ? [first, last] : lines.map((line) => line.at);
  return words.map((at) => String(at).replace("-", "−")).join(close ? "–" : ", ");
}

const spans = ({ rows, columns }: Lines, flat: boolean): string =>
  `${flat ? "" : `rows ${span(rows)}, `}columns ${span(columns)}`;

/** The cell at which a kernel's numbers fit three times into the room. */
const cellSize = (room: number, rows: number, columns: number, times: number): number =>
  Math.max(6, Math.min(54, Math.floor(room / (times * columns)), Math.floor(300 / rows)));

interface Props {
  layer: Layer;
  source: Value;
  products: Sliding;
  chosen: number | null;
  choose: (k: number) => void;
  width: number;
  wide: boolean;
  /** "encoder.0.weight". */
  weight: string;
  /** The output channel. */
  output: number;
}

export function Convolved(props: Props) {
  const { source, products, width } = props;
  const { contributions, first, lines, count } = products;
  const chosen = props.chosen ?? byContribution(contributions)[0] ?? 0;
  const taps = lines.rows.length * lines.columns.length;
  const each = count / Math.max(1, contributions.length);
  const words = `${full(each)} product${each === 1 ? "" : "s"} each`;
  return (
    <>
      {taps > MOST_TAPS ? (
        <p class="nbg-note">
          A filter of {lines.rows.length}×{lines.columns.length} weights is too large to be shown
          tap by tap.
        </p>
      ) : products.phased === null ? (
        <Slid {...props} chosen={chosen} />
      ) : (
        <Spread {...props} chosen={chosen} phased={products.phased} />
      )}
      {contributions.length > 1 && (
        <Contributions
          contributions={contributions}
          first={first}
          noun={`channel`}
          words={`of ${source.key} · ${words}`}
          chosen={chosen}
          choose={props.choose}
          width={width}
        />
      )}
    </>
  );
}

const inputs = (patch: Patch): Cell[] =>
  patch.cells.map(({ input, state }) => ({ value: input, state }));
const weights = (patch: Patch): Cell[] => patch.cells.map(({ weight }) => ({ value: weight }));
const results = (patch: Patch): Cell[] => patch.cells.map(({ product }) => ({ value: product }));

/** The tooltip of a product: how it came about. */
const told = (patch: Patch) => (i: number) => {
  const cell = patch.cells[i];
  return cell ? `${exact(cell.input)} × ${exact(cell.weight)} = ${exact(cell.product)}` : "";
};

const mostOf = (numbers: readonly number[]): number => largest(numbers) || 1;

/** Input, patch × filter = products. */
function Slid(props: Props & { chosen: number }) {
  const { source, products, chosen, width, wide, weight, output } = props;
  const { ratio } = useViews();
  const linked = useSignal<number | null>(null);
  const { lines, first } = products;
  const patch = products.patch(chosen);
  const flat = source.frame[2] === 1 && lines.rows.length === 1;
  const size = mapSize(source, wide ? INPUT : Math.min(INPUT, width), ratio.value);
  const room = wide ? width - size.width - GAP - 2 * SIGN : width;
  const cell = cellSize(room, patch.rows, patch.columns, wide ? 3 : 1);
  const channel = first + chosen;
  const shape = source.shape.slice(1).join("×");
  const colors = {
    input: useShown(source, mostOf(patch.cells.map((one) => one.input))),
    weight: useSigned(mostOf(patch.cells.map((one) => one.weight))),
    product: useSigned(mostOf(patch.cells.map((one) => one.product))),
  };
  const shared = { columns: patch.columns, cell, linked, note: told(patch) };
  const own = `[${output}, ${chosen}]`;
  return (
    <div class="nbg-flowing">
      <div class="nbg-from" style={wide ? { width: px(size.width), marginRight: px(GAP) } : {}}>
        <Figure
          title={source.kind === "input" ? "Input" : source.key}
          text={inputText(source, channel, shape)}
        >
          <InputMap
            value={source}
            channel={channel}
            room={wide ? INPUT : Math.min(INPUT, width)}
            lines={lines}
            callout={wide ? { gap: GAP, height: patch.rows * cell } : null}
            label={`channel ${channel} of ${source.key}, with the patch marked`}
          />
        </Figure>
      </div>
      <Figure title="Patch" text={spans(lines, flat)}>
        <Matrix {...shared} label="Patch of the input" cells={inputs(patch)} color={colors.input} />
      </Figure>
      <Sign>×</Sign>
      <Figure title="Filter" text={`${weight}${own}`}>
        <Matrix {...shared} label="Filter" cells={weights(patch)} color={colors.weight} />
      </Figure>
      <Sign>=</Sign>
      <Figure title="Products" text={productsText(patch)}>
        <Matrix {...shared} label="Products" cells={results(patch)} color={colors.product} />
      </Figure>
    </div>
  );
}

const inputText = (source: Value, channel: number, shape: string): string =>
  (source.shape[1] ?? 1) > 1 ? `channel ${channel} of ${shape}` : shape;

function productsText(patch: Patch): string {
  const hatched = patch.cells.filter((one) => one.state !== "input").length;
  const terms = `${patch.cells.length} term${patch.cells.length === 1 ? "" : "s"}`;
  return hatched > 0 ? `${terms}, ${hatched} from padding` : terms;
}

/** How many of a filter's taps read padding, if any do. */
function outsideText(taps: number, inside: number): string {
  if (inside === taps) return "";
  const some = inside === 0 ? "all" : `${taps - inside} of its ${taps}`;
  return `; ${some} ${taps - inside === 1 && inside > 0 ? "taps lies" : "taps lie"} outside the map (padding)`;
}

/** A transposed convolution, told in its two ways: with zeros inserted, and by phases. */
function Spread(props: Props & { chosen: number; phased: Phased }) {
  const { source, products, chosen, phased, width, wide, weight, output } = props;
  const { ratio } = useViews();
  const linked = useSignal<number | null>(null);
  const { first } = products;
  const patch = products.patch(chosen);
  const { filter } = phased;
  const sub = products.patch(chosen, filter);
  const room = wide ? 170 : Math.min(170, width);
  const size = mapSize(source, room, ratio.value);
  const left = wide ? width - size.width - GAP - 24 - 2 * SIGN : width;
  const cell = cellSize(left, patch.rows, Math.max(patch.columns, 1), wide ? 3.6 : 1);
  const small = Math.min(
    cellSize(
      wide ? left - 2 * patch.columns * cell - 2 * SIGN : width,
      sub.rows || 1,
      sub.columns || 1,
      wide ? 3 : 1,
    ),
    54,
  );
  const channel = first + chosen;
  const colors = {
    input: useShown(source, mostOf(patch.cells.map((one) => one.input))),
    weight: useSigned(mostOf(patch.cells.map((one) => one.weight))),
    product: useSigned(mostOf(sub.cells.map((one) => one.product))),
  };
  const taps = new Set(
    filter.rows.flatMap((row) => filter.columns.map((column) => `${row.tap},${column.tap}`)),
  );
  const ring = (cells: Cell[]): Cell[] =>
    cells.map((one, i): Cell => {
      const [row, column] = [Math.floor(i / patch.columns), i % patch.columns];
      const tap = `${patch.rows - 1 - row},${patch.columns - 1 - column}`;
      return taps.has(tap) ? { ...one, mark: "ring" } : one;
    });
  const shared = { columns: patch.columns, cell, linked, note: told(patch) };
  const few = { columns: Math.max(1, sub.columns), cell: small, note: told(sub) };
  const [sy, sx] = phased.strides;
  const phases = sy * sx;
  const counted = sub.cells.filter((one) => one.state === "input").length;
  const total = sub.cells.reduce((sum, one) => sum + one.product, 0);
  const shape = source.shape.slice(1).join("×");
  return (
    <div class="nbg-flowing nbg-both-ways">
      <Figure title={source.key} text={inputText(source, channel, shape)}>
        <InputMap
          value={source}
          channel={channel}
          room={room}
          lines={filter}
          callout={null}
          label={`channel ${channel} of ${source.key}, with the pixels under the filter marked`}
        />
      </Figure>
      <section>
        <h4>Zero-insertion picture</h4>
        <p class="nbg-second">
          spread the map with zeros, slide the flipped filter {weight}[{channel}, {output}]
        </p>
        <div class="nbg-flowing">
          <Matrix
            {...shared}
            label="Map with zeros inserted"
            cells={ring(inputs(patch))}
            color={colors.input}
          />
          <Sign>×</Sign>
          <Matrix
            {...shared}
            label="Flipped filter"
            cells={ring(weights(patch))}
            color={colors.weight}
          />
        </div>
      </section>
      <section>
        <h4>Sub-pixel picture</h4>
        <p class="nbg-second">
          phase ({phased.phase.join(", ")}) of {phases}
          {sub.cells.length > 0
            ? `: an ordinary ${sub.rows}×${sub.columns} filter${outsideText(sub.cells.length, counted)}`
            : ": no pixel counts here"}
        </p>
        {sub.cells.length > 0 && (
          <div class="nbg-flowing">
            <Matrix
              {...few}
              label="Pixels under the filter"
              cells={inputs(sub)}
              color={colors.input}
            />
            <Sign>×</Sign>
            <Matrix {...few} label="Their weights" cells={weights(sub)} color={colors.weight} />
            <Sign>=</Sign>
            <Matrix {...few} label="Products" cells={results(sub)} color={colors.product} />
          </div>
        )}
        {sub.cells.length > 0 && (
          <p class="nbg-second nbg-after-figure">
            the same {counted} product{counted === 1 ? "" : "s"}, sum <Num value={total} strong />{" "}
            both ways
          </p>
        )}
      </section>
    </div>
  );
}
