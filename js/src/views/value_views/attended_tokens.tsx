// The attention of one token: the largest weights of its row, and all of them over the patches of the input.
import { useEffect } from "preact/hooks";
import { contentsText } from "../../network/display_kind.ts";
import type { Network } from "../../network/network.ts";
import { formatExact, formatShort } from "../../number_format.ts";
import type { TokenGrid, Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { useViews } from "../context.ts";
import { argsortDescending, pictureSize, px } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { AttentionOverlay, PatchMark, tokenAt, tokenAxes, weightsRow } from "./token_marks.tsx";

/** The most weights listed. */
const MAX_LISTED_WEIGHTS = 6;

/** The token's patch, "patch 1, 2" by row and column, or "no patch". */
function patchText(token: number, tokens: TokenGrid | undefined): string {
  const place = tokens?.positions[token];
  if (tokens === undefined || place === undefined) return "";
  if (place < 0) return "no patch";
  return `patch ${Math.floor(place / tokens.columns)}, ${place % tokens.columns}`;
}

/** The attention of one token: its row's largest weights, and all of them over the patches. */
export function AttendedTokens(props: {
  network: Network;
  value: Value;
  head: number;
  side: number;
}) {
  const { network, value, head, side } = props;
  const { hover, pixelRatio, state, attentionRow: last } = useViews();
  const values = useExampleValues(value);
  const { rows, columns } = tokenAxes(value, state.plan.value?.tokens ?? []);
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
  // Keep the row after the pointer leaves, as long as this view is open.
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
  const weights = weightsRow(value, values, head, token);
  const order = argsortDescending(Array.from(weights));
  const words = patchText(token, rows);
  return (
    <section class="nbg-attended" data-token={token} aria-label="Attention of a token">
      <h3>
        Token {token} attends to{" "}
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
          <AttendedInput
            input={input}
            keyTokens={columns}
            queryTokens={rows}
            token={token}
            weights={weights}
            side={side / 2 - 8}
            pixelRatio={pixelRatio.value}
          />
        )}
        <ol>
          {order.slice(0, MAX_LISTED_WEIGHTS).map((one) => (
            <li key={one} data-token={one} title={formatExact(weights[one] ?? 0)}>
              <span>{one}</span>
              <span class="nbg-second">{patchText(one, columns)}</span>
              <strong>{formatShort(weights[one] ?? 0)}</strong>
            </li>
          ))}
          {order.length > MAX_LISTED_WEIGHTS && (
            <li class="nbg-second">
              <span />
              <span>{order.length - MAX_LISTED_WEIGHTS} more</span>
              <span>
                {formatShort(
                  order
                    .slice(MAX_LISTED_WEIGHTS)
                    .reduce((sum, one) => sum + (weights[one] ?? 0), 0),
                )}
              </span>
            </li>
          )}
        </ol>
      </div>
    </section>
  );
}

/** The input under the attention overlay; hovering selects another token. */
function AttendedInput(props: {
  input: Value;
  keyTokens: TokenGrid;
  queryTokens: TokenGrid | undefined;
  token: number;
  weights: Float32Array;
  side: number;
  pixelRatio: number;
}) {
  const { input, keyTokens, queryTokens, token, weights, side, pixelRatio } = props;
  const [, channels, height, width] = input.nchw;
  const { scale } = pictureSize(height, width, {
    width: side * pixelRatio,
    height: side * pixelRatio,
  });
  return (
    <div class="nbg-attended-input" style={{ maxWidth: px(side) }}>
      <Maps
        value={input}
        channels={Array.from({ length: channels }, (_, k) => k)}
        columns={1}
        scale={Math.min(1, scale)}
        zoom={Math.max(1, scale) / pixelRatio}
        label={`${input.key}, ${contentsText(input)}`}
      >
        <AttentionOverlay tokens={keyTokens} weights={weights} />
        {queryTokens !== undefined && <PatchMark tokens={queryTokens} token={token} />}
      </Maps>
    </div>
  );
}
