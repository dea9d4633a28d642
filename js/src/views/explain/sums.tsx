// A convolution's number: the patch under the filter, times the filter, tap by tap.
import { useSignal } from "@preact/signals";
import { aroundOf } from "../../explain/around.ts";
import type { Patch, Sliding } from "../../explain/products.ts";
import { type Phased, spansOf } from "../../explain/window.ts";
import { exact, full } from "../../format.ts";
import type { Layer, Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { largest, px } from "../layout.ts";
import { useShown, useSigned } from "./colors.ts";
import { Contributions } from "./contributions.tsx";
import { type Cell, Figure, Matrix, NUMBERED, Sign } from "./matrix.tsx";
import { Num } from "./number.tsx";
import { InputMap, mapSize } from "./pixel.tsx";

const SIGN = 28;
const GAP = 40;
/** CSS pixels of the input's picture. */
const INPUT = 240;
/** A line of numbers may be longer. */
const LINE = 520;
/** And of a caption: as wide as a picture or a matrix is at least. */
const CAPTION = 112;
/** A larger kernel is told by its channels alone. */
const MOST_TAPS = 1024;

/** The cell at which matrices of a kernel's size fit beside each other, captions and signs included. */
function cellSize(room: number, rows: number, columns: number, times: number): number {
  const each = (room - (times - 1) * SIGN) / times;
  return each < CAPTION
    ? 0
    : Math.max(6, Math.min(54, Math.floor(each / columns), Math.floor(300 / rows)));
}

/** Where three matrices go: beside the input's picture, below it, or one below the other. */
function rowOf(width: number, picture: number, rows: number, columns: number) {
  const beside = cellSize(width - picture - GAP, rows, columns, 3);
  const below = cellSize(width, rows, columns, 3);
  const stacked = cellSize(width, rows, columns, 1);
  // Numbers that can be read are worth the height.
  const enough = Math.min(NUMBERED, stacked);
  if (beside >= enough) return { cell: beside, way: "beside" };
  return below >= enough ? { cell: below, way: "below" } : { cell: stacked, way: "stacked" };
}

interface Props {
  layer: Layer;
  source: Value;
  products: Sliding;
  chosen: number;
  choose: (k: number) => void;
  width: number;
  /** "encoder.0.weight". */
  weight: string;
  /** The output channel. */
  output: number;
}

export function Convolved(props: Props) {
  const { source, products, chosen, width } = props;
  const { contributions, first, lines, count } = products;
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
        <Slid {...props} />
      ) : (
        <Spread {...props} phased={products.phased} />
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
function Slid(props: Props) {
  const { layer, source, products, chosen, width, weight, output } = props;
  const { ratio } = useViews();
  const linked = useSignal<number | null>(null);
  const { lines, first } = products;
  const patch = products.patch(chosen);
  const flat = source.nchw[2] === 1 && lines.rows.length === 1;
  const around = aroundOf(layer);
  const room = Math.min(source.nchw[2] === 1 ? LINE : INPUT, width);
  const from = Math.max(CAPTION, mapSize(source, room, ratio.value, around).outer.width);
  const { cell, way } = rowOf(width, from, patch.rows, patch.columns);
  const beside = way === "beside";
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
    <div class={`nbg-flowing nbg-way-${way}`}>
      <div class="nbg-from" style={{ width: px(from) }}>
        <Figure
          title={source.kind === "input" ? "Input" : source.key}
          text={inputText(source, channel, shape)}
        >
          <InputMap
            value={source}
            channel={channel}
            room={room}
            lines={lines}
            around={around}
            callout={beside ? { gap: GAP, height: patch.rows * cell } : null}
            label={`channel ${channel} of ${source.key}, with the patch marked`}
          />
        </Figure>
      </div>
      <div class="nbg-equation">
        <Figure title="Patch" text={spansOf(lines, flat, layer.attributes.padding_mode)}>
          <Matrix
            {...shared}
            label="Patch of the input"
            cells={inputs(patch)}
            color={colors.input}
          />
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
function Spread(props: Props & { phased: Phased }) {
  const { layer, source, products, chosen, phased, width, weight, output } = props;
  const linked = useSignal<number | null>(null);
  const { first } = products;
  const patch = products.patch(chosen);
  const { filter } = phased;
  const sub = products.patch(chosen, filter);
  const room = Math.min(source.nchw[2] === 1 ? LINE : 170, width);
  const cell = cellSize(width - room - 24, patch.rows, Math.max(1, patch.columns), 2);
  const small = cellSize(width, sub.rows || 1, sub.columns || 1, 3);
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
          around={aroundOf(layer)}
          callout={null}
          label={`channel ${channel} of ${source.key}, with the pixels under the filter marked`}
        />
      </Figure>
      <section>
        <h4>Zero-insertion picture</h4>
        <p class="nbg-second">
          spread the map with zeros, slide the flipped filter {weight}[{channel}, {output}]
        </p>
        <div class="nbg-equation">
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
          <div class="nbg-equation">
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
