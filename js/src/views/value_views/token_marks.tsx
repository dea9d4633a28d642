// Marks of attention over pictures: the row of weights under the pointer, and the patches that its tokens stand for.
import type { TokenGrid, Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { useViews } from "../context.ts";

/** What the rows and the columns of attention weights stand for. */
export function tokenAxes(value: Value, tokens: readonly TokenGrid[]) {
  const [rows, columns] = value.tokens;
  return { rows: tokens[rows], columns: tokens[columns] };
}

/** A rectangle in shares of a picture, for a style. */
const percentBox = (left: number, top: number, width: number, height: number) => ({
  left: `${100 * left}%`,
  top: `${100 * top}%`,
  width: `${100 * width}%`,
  height: `${100 * height}%`,
});

export function PatchMark({ tokens, token }: { tokens: TokenGrid; token: number }) {
  const { rows, columns, positions } = tokens;
  const place = positions[token] ?? -1;
  if (place < 0) return null;
  const [row, column] = [Math.floor(place / columns), place % columns];
  return (
    <span
      class="nbg-mark"
      data-patch={`${row},${column}`}
      style={percentBox(column / columns, row / rows, 1 / columns, 1 / rows)}
    />
  );
}

/** What a token looks at stays as it is; the less it looks at a patch, the darker that becomes. */
export function AttentionOverlay({
  tokens,
  weights,
}: {
  tokens: TokenGrid;
  weights: ArrayLike<number>;
}) {
  const { rows, columns, positions } = tokens;
  let most = 0;
  for (const [token, place] of positions.entries()) {
    if (place >= 0) most = Math.max(most, weights[token] ?? 0);
  }
  return (
    <svg
      class="nbg-veil"
      viewBox={`0 0 ${columns} ${rows}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {positions.map((place, token) => {
        if (place < 0) return null;
        const share = (weights[token] ?? 0) / (most || 1);
        return (
          <rect
            key={place}
            data-place={place}
            data-share={share}
            x={place % columns}
            y={Math.floor(place / columns)}
            width={1}
            height={1}
            fill-opacity={0.75 * (1 - Math.min(1, share))}
          />
        );
      })}
    </svg>
  );
}

/** The weights of a head's row, of one image's values. */
export function weightsRow(
  value: Value,
  values: Float32Array,
  head: number,
  row: number,
): Float32Array {
  const [, , height, width] = value.nchw;
  const start = (head * height + row) * width;
  return values.subarray(start, start + width);
}

/** The token whose patch has a pixel of the input's picture. */
export function tokenAt(tokens: TokenGrid, input: Value, y: number, x: number): number {
  const [, , height, width] = input.nchw;
  const row = Math.floor((y * tokens.rows) / height);
  const column = Math.floor((x * tokens.columns) / width);
  return tokens.positions.indexOf(row * tokens.columns + column);
}

/**
 * Over a picture: the row under the pointer, in all heads; over the input's picture the patch of that token, and what it
 * looks at; and with the pointer on the input, the row of that patch's token.
 */
export function TokenMarks(props: {
  value: Value;
  /** How the maps stand: their number, columns, sides and the gap between them in canvas pixels. */
  mosaic: { count: number; columns: number; width: number; height: number; gap: number };
}) {
  const { value, mosaic } = props;
  const { hover: hovered, state, attentionRow: last } = useViews();
  const hover = hovered.value;
  const known = state.plan.value?.tokens ?? [];
  const looks =
    hover?.value.display_kind === "attention" ? tokenAxes(hover.value, known) : undefined;
  const isInput = looks?.rows?.input === value.key || looks?.columns?.input === value.key;
  const values = useExampleValues(isInput && hover !== null ? hover.value : null);
  if (hover === null) {
    const row = last.value?.key === value.key ? last.value.row : -1;
    return row < 0 ? null : <RowMarks value={value} row={row} mosaic={mosaic} />;
  }
  if (isInput) {
    const [head = 0] = hover.channels;
    const weights = values && weightsRow(hover.value, values, head, hover.y);
    return (
      <>
        {looks?.columns !== undefined && weights && (
          <AttentionOverlay tokens={looks.columns} weights={weights} />
        )}
        {looks?.rows !== undefined && <PatchMark tokens={looks.rows} token={hover.y} />}
      </>
    );
  }
  if (value.display_kind !== "attention") return null;
  const { rows } = tokenAxes(value, known);
  const own = hover.value.key === value.key;
  const row = own
    ? hover.y
    : rows?.input === hover.value.key
      ? tokenAt(rows, hover.value, hover.y, hover.x)
      : -1;
  return row < 0 ? null : <RowMarks value={value} row={row} mosaic={mosaic} />;
}

function RowMarks(props: {
  value: Value;
  row: number;
  mosaic: { count: number; columns: number; width: number; height: number; gap: number };
}) {
  const { value, row } = props;
  const { count, columns, width, height, gap } = props.mosaic;
  const tokens = value.nchw[2];
  const across = columns * (width + gap) - gap;
  const down = Math.ceil(count / columns) * (height + gap) - gap;
  return (
    <>
      {Array.from({ length: count }, (_, k) => {
        const left = (k % columns) * (width + gap);
        const top = Math.floor(k / columns) * (height + gap) + (row * height) / tokens;
        const box = percentBox(left / across, top / down, width / across, height / tokens / down);
        return <span key={k} class="nbg-row-mark" data-row={row} style={box} />;
      })}
    </>
  );
}
