// Checkpoints as rows of pictures: a layer's weights then, and what the network made of the same examples.
import { useMemo, useRef, useState } from "preact/hooks";
import { full } from "../../../format.ts";
import type { Network } from "../../../network/network.ts";
import { Choice } from "../../../views/choice.tsx";
import { useViews } from "../../../views/context.ts";
import { Restart } from "../../../views/icons.tsx";
import type { Course } from "../records.ts";
import type { Checkpoint, TrainingActions, TrainingProgress } from "../state.ts";
import { lossText } from "./chart.tsx";
import { LayerChoice } from "./choice.tsx";
import { CopyLine, SaveWeights } from "./copy.tsx";
import { type Kind, kindOf } from "./examples.ts";
import { Predictions } from "./examples.tsx";
import { rangeText } from "./layer.tsx";
import { EDGE, type Fitting, fitting, mostOf, type Tiling, tilingOf } from "./tiles.ts";
import { Tiles } from "./tiles.tsx";
import type { Group } from "./training_text.ts";
import { useWatched } from "./watched.ts";

type What = "weights" | "change";
const WHAT: readonly (readonly [What, string])[] = [
  ["weights", "Weights"],
  ["change", "Change"],
];
/** CSS pixels: of a row's tiles, and of its first column. */
const TILE = 36;
const STEPS = 92;
const GAP = 20;

export interface CheckpointsProps {
  network: Network;
  course: Course;
  progress: TrainingProgress;
  groups: readonly Group[];
  chosen: Checkpoint | null;
  choose: (id: number) => void;
  /** Nothing is chosen any more. */
  leave: () => void;
  width: number;
}

export function Checkpoints(props: CheckpointsProps) {
  const { network, course, progress, groups, chosen, choose, leave, width } = props;
  const { state } = useViews();
  const { checkpoints, fixed } = progress;
  const host = state.trainer.value;
  const isMirrored = state.training.value?.mirrored === true;
  const kind = fixed === null ? null : kindOf(course, fixed);
  const [wanted, setWanted] = useState<string | null>(null);
  const [what, setWhat] = useState<What>("change");
  const names = groups.map(({ parameters }) => mainOf(network, parameters));
  // What makes pictures is last in a network, what looks at them first.
  const name = names.find((one) => one === wanted) ?? names.at(kind === "pictures" ? -1 : 0) ?? "";
  const now = useWatched(name === "" ? [] : [name]).get(name);
  const rows = useRows(network, name, what, checkpoints, now);
  const sizes = sizesOf(width, fixed?.count ?? 0, kind);
  const { ratio } = useViews();
  const fit = useFit(rows.tiling, sizes.tiles, ratio.value);
  const gap = Math.round(4 * ratio.value);
  const list = useRef<HTMLDivElement>(null);
  const shown = { tiling: rows.tiling, fit, gap, most: mostShown(rows, fit), name };
  const { noun } = rows.tiling;
  const all = rows.tiling.starts.length;
  const layer = groups[names.indexOf(name)]?.name ?? name;
  const heading = [
    `${name} ${what === "change" ? `, change since step ${full(rows.first)}` : ""}`.replace(
      " ,",
      ",",
    ),
    noun === ""
      ? ""
      : fit.count < all
        ? `${fit.count} of ${full(all)} ${noun}`
        : `${full(all)} ${noun}`,
    rangeText(shown.most),
  ].filter((text) => text !== "");
  const move = (event: KeyboardEvent): void => {
    const at = checkpoints.findIndex(({ id }) => id === chosen?.id);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: checkpoints.length - 1 }[
      event.key
    ];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = checkpoints[Math.min(checkpoints.length - 1, Math.max(0, to))];
    if (next === undefined || next.id === chosen?.id) return;
    choose(next.id);
    list.current?.querySelector<HTMLElement>(`[data-checkpoint="${next.id}"]`)?.focus();
  };
  const predicted = (values: Float32Array | null, of: string) =>
    fixed !== null &&
    kind !== null && <Predictions {...{ fixed, kind, values, of }} side={sizes.side} />;
  const first = chosen?.id ?? checkpoints[0]?.id;
  return (
    <section class="nbg-checkpoints" aria-label="Checkpoints">
      <header>
        <span>
          <strong>Checkpoints</strong>{" "}
          <span class="nbg-second">
            {chosen !== null && progress.phase === "running"
              ? "pause to see it in all views"
              : "click a row, or drag the dot"}
          </span>
        </span>
        <span class="nbg-checkpoint-tools">
          <LayerChoice
            label="Layer of the checkpoints"
            items={groups.map((group, k) => [names[k] ?? "", group.name] as const)}
            now={name}
            choose={setWanted}
          />
          <Choice label={`What is shown of ${layer}`} items={WHAT} now={what} choose={setWhat} />
          {isMirrored ? (
            <BackToNow isLooking={progress.looking !== null} leave={leave} />
          ) : (
            <GoBack chosen={chosen} actions={state.trainingActions.value} leave={leave} />
          )}
          {host?.compiles && <CopyLine line="viewer.state_dict()" word="state_dict" />}
          {host?.saveWeights && <SaveWeights save={host.saveWeights} />}
        </span>
      </header>
      <div class="nbg-checkpoint-heading nbg-second">
        <span>step, loss</span>
        <span>{heading.join(" · ")}</span>
        {fixed !== null && <span class="nbg-predicted-heading">{aboutExamples(kind, fixed)}</span>}
      </div>
      <div
        role="listbox"
        aria-label="Checkpoints"
        ref={list}
        onKeyDown={move}
        class="nbg-checkpoint-rows"
      >
        {checkpoints.map((one, k) => (
          <div
            key={one.id}
            role="option"
            class="nbg-checkpoint"
            tabIndex={one.id === first ? 0 : -1}
            data-checkpoint={one.id}
            aria-selected={one.id === chosen?.id}
            aria-label={`step ${full(one.step)}, loss ${lossOf(one)}${branchText(one)}`}
            title={one.fits ? undefined : isMirrored ? COMPILED : CHANGED}
            onClick={() => choose(one.id)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              event.stopPropagation();
              choose(one.id);
            }}
          >
            <span class="nbg-checkpoint-step">
              <strong>{full(one.step)}</strong>
              <span class="nbg-second">{lossOf(one)}</span>
              {one.branch > 0 && <span class="nbg-second">branch {one.branch}</span>}
            </span>
            <Shown {...shown} values={rows.values[k]} of={`step ${one.step}`} />
            {predicted(one.predictions.length > 0 ? one.predictions : null, `step ${one.step}`)}
          </div>
        ))}
      </div>
      <div class="nbg-checkpoint nbg-checkpoint-now">
        <span class="nbg-checkpoint-step">
          <strong>Now</strong>
          <span class="nbg-second">{full(progress.step)}</span>
        </span>
        <Shown {...shown} values={rows.now} of="now" />
        {progress.predictions !== null && predicted(progress.predictions, "now")}
      </div>
      {fixed !== null && (
        <div class="nbg-checkpoint nbg-checkpoint-target">
          <span class="nbg-checkpoint-step">
            <strong>Target</strong>
          </span>
          <span />
          {predicted(null, "target")}
        </div>
      )}
    </section>
  );
}

const CHANGED =
  "Layers that were frozen then are trained now: it can be neither shown nor gone back to.";

const COMPILED = "The network was compiled again since then: these weights can’t be shown.";

/** Before the first step none is known, unless something is held out. */
const lossOf = ({ loss }: Checkpoint): string => (Number.isNaN(loss) ? "none yet" : lossText(loss));

const branchText = ({ branch }: Checkpoint): string => (branch > 0 ? `, branch ${branch}` : "");

/** Of a layer's parameters the one that is pictured. */
export const mainOf = (network: Network, parameters: readonly string[]): string =>
  parameters.find((name) => (network.parameters.get(name)?.shape.length ?? 1) > 1) ??
  parameters[0] ??
  "";

function aboutExamples(kind: Kind | null, fixed: { count: number; isHeldOut: boolean }): string {
  const what = { pictures: "reconstructions", classes: "answers", numbers: "outputs" };
  const words = kind === null ? "" : what[kind];
  return `${words} for the same ${fixed.count} ${fixed.isHeldOut ? "held-out " : ""}examples`;
}

/** CSS pixels of a row's parts. */
function sizesOf(width: number, count: number, kind: Kind | null) {
  const stacked = width < 620;
  const inner = width - (stacked ? 24 : 32);
  const most = kind === "numbers" ? 84 : 62;
  const share = stacked ? inner : 0.38 * inner;
  const side = Math.max(18, Math.min(most, Math.floor(share / Math.max(1, count)) - 4));
  const right = stacked || count === 0 ? 0 : count * (side + 4) + GAP;
  return { side, tiles: Math.max(40, inner - STEPS - right - 8) };
}

interface Rows {
  readonly tiling: Tiling;
  /** Of each checkpoint; undefined where it doesn't have this parameter. */
  readonly values: readonly (Float32Array | undefined)[];
  readonly now: Float32Array | undefined;
  /** The step since which changes are. */
  readonly first: number;
}

function useRows(
  network: Network,
  name: string,
  what: What,
  checkpoints: readonly Checkpoint[],
  now: Float32Array | undefined,
): Rows {
  const plan = useViews().state.plan.value;
  const kept = useMemo(() => {
    const all = checkpoints.map(({ arrays }) => arrays.get(name));
    const earliest = checkpoints
      .filter(({ arrays }) => arrays.has(name))
      .sort((a, b) => a.step - b.step)[0];
    const from = earliest?.arrays.get(name);
    const length = from?.length ?? 0;
    const change = (values: Float32Array | undefined) =>
      values?.map((value, k) => value - (from?.[k] ?? Number.NaN));
    return {
      tiling: tilingOf(plan, network, name, length),
      values: what === "change" ? all.map(change) : all,
      first: earliest?.step ?? 0,
      change,
    };
  }, [plan, network, name, what, checkpoints]);
  const shown = what === "change" ? kept.change(now) : now;
  return { ...kept, now: shown?.length === 0 ? undefined : shown };
}

/** One line of tiles, all of one size. */
function useFit(tiling: Tiling, width: number, ratio: number): Fitting {
  const lines = Math.ceil(tiling.size / tiling.columns);
  const one = Math.max(
    1,
    Math.floor((TILE * ratio) / Math.max(lines, Math.min(tiling.columns, 8))),
  );
  const room = { width: Math.floor(width * ratio), height: lines * one + 2 * EDGE };
  return fitting(tiling, room, Math.round(4 * ratio), one, one);
}

/** One range for all rows: they can be compared. */
const mostShown = ({ tiling, values, now }: Rows, { count }: Fitting): number =>
  [...values, now].reduce(
    (most, one) => (one === undefined ? most : Math.max(most, mostOf(one, tiling, count))),
    0,
  );

function Shown(props: {
  tiling: Tiling;
  fit: Fitting;
  gap: number;
  most: number;
  name: string;
  values: Float32Array | undefined;
  of: string;
}) {
  const { values, of, name, ...rest } = props;
  return (
    <span class="nbg-checkpoint-tiles">
      {values !== undefined && values.length > 0 && (
        <Tiles {...rest} values={values} label={`${name}, ${of}`} name={`${name} ${of}`} />
      )}
    </span>
  );
}

/** Of a loop in Python earlier weights can be looked at, and no more. */
function BackToNow({ isLooking, leave }: { isLooking: boolean; leave: () => void }) {
  return (
    <button
      type="button"
      class="nbg-button"
      disabled={!isLooking}
      title={isLooking ? "All views show the weights of now again" : "These are the weights of now"}
      onClick={leave}
    >
      <Restart />
      Back to now
    </button>
  );
}

/** Makes the chosen checkpoint the present; the curve behind it can be kept. */
function GoBack(props: {
  chosen: Checkpoint | null;
  actions: TrainingActions | null;
  leave: () => void;
}) {
  const { chosen, actions, leave } = props;
  const [keep, setKeep] = useState(true);
  const why =
    actions === null
      ? "No training runs in this page."
      : chosen === null
        ? "Choose a checkpoint first."
        : chosen.fits
          ? ""
          : CHANGED;
  return (
    <>
      <button
        type="button"
        class="nbg-button"
        disabled={why !== ""}
        title={why || "Pauses, and goes on from there when you resume"}
        onClick={() => {
          if (chosen === null) return;
          actions?.goBack(chosen.id, keep);
          leave();
        }}
      >
        <Restart />
        Go back to this one
      </button>
      <label class="nbg-labelled" title="The curve of now stays in grey, with its checkpoints">
        <input
          type="checkbox"
          checked={keep}
          onChange={(event) => setKeep(event.currentTarget.checked)}
        />
        <span class="nbg-second">keep a branch</span>
      </label>
    </>
  );
}
