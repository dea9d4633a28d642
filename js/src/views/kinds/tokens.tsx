// Which token looks at which: the row of attention weights under the pointer, over the patches that its tokens stand for.
import { useEffect } from "preact/hooks";
import { exact, short } from "../../format.ts";
import { contents } from "../../network/display.ts";
import type { Network } from "../../network/network.ts";
import type { Tokens, Value } from "../../plan/schema.ts";
import { useImageValues } from "../bars.tsx";
import { useViews } from "../context.ts";
import { pictureSize, px, rank } from "../layout.ts";
import { Maps } from "../maps.tsx";

/** Weights that are listed. */
const LISTED = 6;

/** What the rows and the columns of attention weights stand for. */
function tokensOf(value: Value, tokens: readonly Tokens[]) {
  const [rows, columns] = value.tokens;
  return { rows: tokens[rows], columns: tokens[columns] };
}

/** "patch 1, 2" by row and column, or what a token without a patch is. */
function wordsOf(token: number, tokens: Tokens | undefined): string {
  const place = tokens?.places[token];
  if (tokens === undefined || place === undefined) return "";
  if (place < 0) return "no patch";
  return `patch ${Math.floor(place / tokens.columns)}, ${place % tokens.columns}`;
}

/** A rectangle in shares of a picture, for a style. */
const boxOf = (left: number, top: number, width: number, height: number) => ({
  left: `${100 * left}%`,
  top: `${100 * top}%`,
  width: `${100 * width}%`,
  height: `${100 * height}%`,
});

function PatchMark({ tokens, token }: { tokens: Tokens; token: number }) {
  const { rows, columns, places } = tokens;
  const place = places[token] ?? -1;
  if (place < 0) return null;
  const [row, column] = [Math.floor(place / columns), place % columns];
  return (
    <span
      class="nbg-mark"
      data-patch={`${row},${column}`}
      style={boxOf(column / columns, row / rows, 1 / columns, 1 / rows)}
    />
  );
}

/** What a token looks at stays as it is; the less it looks at a patch, the darker that becomes. */
function Veil({ tokens, weights }: { tokens: Tokens; weights: ArrayLike<number> }) {
  const { rows, columns, places } = tokens;
  let most = 0;
  for (const [token, place] of places.entries()) {
    if (place >= 0) most = Math.max(most, weights[token] ?? 0);
  }
  return (
    <svg
      class="nbg-veil"
      viewBox={`0 0 ${columns} ${rows}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {places.map((place, token) => {
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
function rowOf(value: Value, values: Float32Array, head: number, row: number): Float32Array {
  const [, , height, width] = value.nchw;
  const start = (head * height + row) * width;
  return values.subarray(start, start + width);
}

/** The token whose patch has a pixel of the input's picture. */
function tokenAt(tokens: Tokens, input: Value, y: number, x: number): number {
  const [, , height, width] = input.nchw;
  const row = Math.floor((y * tokens.rows) / height);
  const column = Math.floor((x * tokens.columns) / width);
  return tokens.places.indexOf(row * tokens.columns + column);
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
  const { hover: hovered, state, token: last } = useViews();
  const hover = hovered.value;
  const known = state.plan.value?.tokens ?? [];
  const looks = hover?.value.form === "attention" ? tokensOf(hover.value, known) : undefined;
  const isInput = looks?.rows?.input === value.key || looks?.columns?.input === value.key;
  const values = useImageValues(isInput && hover !== null ? hover.value : null);
  if (hover === null) {
    const row = last.value?.key === value.key ? last.value.row : -1;
    return row < 0 ? null : <RowMarks value={value} row={row} mosaic={mosaic} />;
  }
  if (isInput) {
    const [head = 0] = hover.channels;
    const weights = values && rowOf(hover.value, values, head, hover.y);
    return (
      <>
        {looks?.columns !== undefined && weights && (
          <Veil tokens={looks.columns} weights={weights} />
        )}
        {looks?.rows !== undefined && <PatchMark tokens={looks.rows} token={hover.y} />}
      </>
    );
  }
  if (value.form !== "attention") return null;
  const { rows } = tokensOf(value, known);
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
        const box = boxOf(left / across, top / down, width / across, height / tokens / down);
        return <span key={k} class="nbg-row-mark" data-row={row} style={box} />;
      })}
    </>
  );
}

/** What one token looks at: its row's largest weights, and all of them over the patches. */
export function Attended(props: { network: Network; value: Value; head: number; side: number }) {
  const { network, value, head, side } = props;
  const { hover, ratio, state, token: last } = useViews();
  const values = useImageValues(value);
  const { rows, columns } = tokensOf(value, state.plan.value?.tokens ?? []);
  const input = network.inputs.find(({ key }) => key === columns?.input);
  const at = hover.value;
  const under =
    at === null
      ? -1
      : at.value.key === value.key
        ? at.y
        : at.value.key === rows?.input
          ? tokenAt(rows, at.value, at.y, at.x)
          : -1;
  const kept = last.value?.key === value.key ? last.value.row : 0;
  const token = under >= 0 ? under : kept;
  const { key } = value;
  // It stays when the pointer leaves, for as long as this is open.
  useEffect(() => {
    if (under >= 0) last.value = { key, row: under };
  }, [last, key, under]);
  useEffect(
    () => () => {
      last.value = null;
    },
    [last],
  );
  if (values === null) return null;
  const weights = rowOf(value, values, head, token);
  const order = rank(Array.from(weights));
  const words = wordsOf(token, rows);
  return (
    <section class="nbg-attended" data-token={token} aria-label="What a token looks at">
      <h3>
        Token {token} looks at{" "}
        <span class="nbg-second">
          {words !== "" && `${words} · `}point at{" "}
          {input === undefined ? "a row" : "a row or a patch"}
        </span>
      </h3>
      <input
        type="range"
        min={0}
        max={value.nchw[2] - 1}
        value={token}
        aria-label="Token"
        aria-valuetext={`token ${token}${words === "" ? "" : `, ${words}`}`}
        onInput={(event) => {
          last.value = { key, row: event.currentTarget.valueAsNumber };
        }}
      />
      <div class="nbg-attended-two">
        {input !== undefined && columns !== undefined && (
          <Looked
            input={input}
            tokens={columns}
            query={rows}
            token={token}
            weights={weights}
            side={side / 2 - 8}
            ratio={ratio.value}
          />
        )}
        <ol>
          {order.slice(0, LISTED).map((one) => (
            <li key={one} data-token={one} title={exact(weights[one] ?? 0)}>
              <span>{one}</span>
              <span class="nbg-second">{wordsOf(one, columns)}</span>
              <strong>{short(weights[one] ?? 0)}</strong>
            </li>
          ))}
          {order.length > LISTED && (
            <li class="nbg-second">
              <span />
              <span>{order.length - LISTED} more</span>
              <span>
                {short(order.slice(LISTED).reduce((sum, one) => sum + (weights[one] ?? 0), 0))}
              </span>
            </li>
          )}
        </ol>
      </div>
    </section>
  );
}

/** The input under its veil, which the pointer may ask for another token. */
function Looked(props: {
  input: Value;
  tokens: Tokens;
  query: Tokens | undefined;
  token: number;
  weights: Float32Array;
  side: number;
  ratio: number;
}) {
  const { input, tokens, query, token, weights, side, ratio } = props;
  const [, channels, height, width] = input.nchw;
  const { scale } = pictureSize(height, width, { width: side * ratio, height: side * ratio });
  return (
    <div class="nbg-looked" style={{ maxWidth: px(side) }}>
      <Maps
        value={input}
        channels={Array.from({ length: channels }, (_, k) => k)}
        columns={1}
        scale={Math.min(1, scale)}
        zoom={Math.max(1, scale) / ratio}
        label={`${input.key}, ${contents(input)}`}
      >
        <Veil tokens={tokens} weights={weights} />
        {query !== undefined && <PatchMark tokens={query} token={token} />}
      </Maps>
    </div>
  );
}
