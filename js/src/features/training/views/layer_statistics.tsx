// Statistics of one layer during training: parameters and gradients, update ratios, dead channels.
import { useMemo } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatInteger, formatPercent, formatPlural, formatShort } from "../../../number_format.ts";
import type { Histogram as Found } from "../../../plan/runtime.ts";
import { useViews } from "../../../views/context.ts";
import { Histogram } from "../../../views/histogram.tsx";
import type { TrainingConfig } from "../records.ts";
import type { TrainingProgress } from "../state.ts";
import { LayerSelect } from "./layer_select.tsx";
import { TileCanvas } from "./tile_canvas.tsx";
import { fitTiles, maxTileValue, parameterTiling } from "./tile_layout.ts";
import type { ParameterGroup } from "./training_text.ts";
import { useWatchedTensors } from "./use_watched_tensors.ts";

/** CSS pixels: height of a parameter's tiles, and of the histogram below them. */
const TILES_HEIGHT = 112;
const HISTOGRAM_HEIGHT = 44;
const HISTOGRAM_BINS = 41;

export function LayerStatistics(props: {
  network: Network;
  config: TrainingConfig;
  progress: TrainingProgress;
  groups: readonly ParameterGroup[];
  group: ParameterGroup;
  selectGroup: (name: string) => void;
  width: number;
}) {
  const { network, config, progress, groups, group, selectGroup, width } = props;
  const { state } = useViews();
  const { parameters } = group;
  const gradientOf = (name: string): string => config.gradients[name] ?? "";
  const found = useWatchedTensors([
    ...parameters,
    ...parameters.map(gradientOf).filter((key) => key !== ""),
  ]);
  // The parameter that is shown large, and those shown as a line below it.
  const main = parameters.find((name) => parameterRank(network, name) > 1) ?? parameters[0] ?? "";
  const others = parameters.filter((name) => name !== main);
  const column = Math.floor((width - 20) / 2);
  const isHere = state.trainingActions.value !== null;
  const hasGradients = Object.keys(config.gradients).length > 0;
  return (
    <section
      class="nbg-learning"
      data-layer={group.name}
      aria-label={`${group.name} during training`}
    >
      <header>
        <span>
          <strong>{group.name}</strong>{" "}
          <span class="nbg-second">
            {hasGradients ? "weights and their gradients" : "weights"}
            {isHere && ", live"}
          </span>
        </span>
        <LayerSelect
          label="Watched layer"
          items={groups.map(({ name }) => [name, name] as const)}
          selected={group.name}
          choose={selectGroup}
        />
      </header>
      {found.size === 0 && (
        <p class="nbg-second">
          {isHere
            ? "Loading…"
            : progress.phase === "stopped"
              ? "Statistics are shown only during training. The Layer tab has the weights."
              : "The page that trains shows the statistics."}
        </p>
      )}
      <div class="nbg-learning-columns">
        {[
          { key: main, words: shortParameterName(main) },
          ...(hasGradients ? [{ key: gradientOf(main), words: "gradient" }] : []),
        ].map(({ key, words }) => (
          <ParameterFigure
            key={words}
            network={network}
            name={main}
            values={found.get(key)}
            title={words}
            description={words === "gradient" ? `gradient of ${main}` : main}
            width={column}
            isLarge
          />
        ))}
        {others.flatMap((name) => [
          <ParameterFigure
            key={name}
            network={network}
            name={name}
            values={found.get(name)}
            title={shortParameterName(name)}
            description={name}
            width={column}
          />,
          <ParameterFigure
            key={`${name} gradient`}
            network={network}
            name={name}
            values={found.get(gradientOf(name))}
            title={`gradient of ${shortParameterName(name)}`}
            description={`gradient of ${name}`}
            width={column}
          />,
        ])}
      </div>
      <UpdateRatios config={config} progress={progress} parameters={parameters} />
      <DeadUnits config={config} progress={progress} network={network} layer={group.name} />
    </section>
  );
}

const shortParameterName = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
const parameterRank = (network: Network, name: string): number =>
  network.parameters.get(name)?.shape.length ?? 1;

/** "±0.39": the values at which the colours saturate. */
export const rangeText = (maxMagnitude: number): string =>
  maxMagnitude === 0 ? "all 0" : `±${formatShort(maxMagnitude)}`;

/** A parameter or its gradient; large ones with a histogram. */
function ParameterFigure(props: {
  network: Network;
  name: string;
  values: Float32Array | undefined;
  title: string;
  description: string;
  width: number;
  isLarge?: boolean;
}) {
  const { network, name, values, title, description, width, isLarge = false } = props;
  const { state, pixelRatio } = useViews();
  const plan = state.plan.value;
  const length = values?.length ?? 0;
  const tiling = useMemo(
    () => parameterTiling(plan, network, name, length),
    [plan, network, name, length],
  );
  const spread = useMemo(() => (values && isLarge ? histogramOf(values) : null), [values, isLarge]);
  if (values === undefined || values.length === 0 || width < 20) return null;
  const gap = Math.round(3 * pixelRatio.value);
  const room = {
    width: Math.floor(width * pixelRatio.value),
    height: Math.floor((isLarge ? TILES_HEIGHT : 16) * pixelRatio.value),
  };
  const largest = Math.floor((isLarge ? 12 : 8) * pixelRatio.value);
  const tileLayout = fitTiles(tiling, room, gap, 1, largest);
  const maxMagnitude = maxTileValue(values, tiling, tileLayout.tileCount);
  const { starts, noun, note } = tiling;
  const some =
    tileLayout.tileCount < starts.length
      ? `${formatInteger(tileLayout.tileCount)} of ${formatInteger(starts.length)} ${noun}`
      : "";
  const caption = [title, rangeText(maxMagnitude), some, isLarge ? note : ""].filter(
    (text) => text !== "",
  );
  return (
    <figure>
      <figcaption class="nbg-second">{caption.join(" · ")}</figcaption>
      <TileCanvas
        {...{ values, tiling, tileLayout, gap, maxMagnitude }}
        name={description}
        label={`${description}, ${formatPlural(values.length, "value")}, ${rangeText(maxMagnitude)}`}
      />
      {spread !== null && (
        <Histogram
          histogram={spread}
          width={Math.min(width, 240)}
          height={HISTOGRAM_HEIGHT}
          label={`Histogram of ${description}`}
        />
      )}
    </figure>
  );
}

/** A histogram of the values. Zeros are counted separately; if all values are equal they fall into the middle bin. */
function histogramOf(values: Float32Array): Found | null {
  let [low, high, zeros] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value === 0) zeros++;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  const counts = new Array<number>(HISTOGRAM_BINS).fill(0);
  const by = high > low ? HISTOGRAM_BINS / (high - low) : 0;
  for (const value of values) {
    if (!Number.isFinite(value) || value === 0) continue;
    const bin =
      by === 0
        ? (HISTOGRAM_BINS - 1) / 2
        : Math.min(HISTOGRAM_BINS - 1, Math.floor((value - low) * by));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return { low, high, zeros, counts };
}

/** The size of a step's update relative to each of the layer's parameters. */
function UpdateRatios(props: {
  config: TrainingConfig;
  progress: TrainingProgress;
  parameters: readonly string[];
}) {
  const { config, progress, parameters } = props;
  const { updateRatios } = progress;
  if (updateRatios === null) return null;
  const found = parameters.flatMap((name) => {
    const ratio = updateRatios[config.trained_parameters.indexOf(name)];
    return ratio === undefined ? [] : [`${shortParameterName(name)} ${formatShort(ratio)}`];
  });
  if (found.length === 0) return null;
  return (
    <p class="nbg-learning-line" data-line="ratios">
      <span class="nbg-second">Update / size</span> {found.join(" · ")}{" "}
      <span class="nbg-second">(about 1e−3 is usual)</span>
    </p>
  );
}

/** Channels that are 0 for a whole batch, of the layer itself or of the activation after it. */
function DeadUnits(props: {
  config: TrainingConfig;
  progress: TrainingProgress;
  network: Network;
  layer: string;
}) {
  const { config, progress, network, layer } = props;
  const { deadUnits } = progress;
  const stage = network.stages.find(({ layers }) => layers.some(({ name }) => name === layer));
  const names = [layer, ...(stage?.layers.map(({ name }) => name) ?? [])];
  const at = config.relu_layers.findIndex((name) => names.includes(name));
  const share = at < 0 ? undefined : deadUnits?.[at];
  if (share === undefined) return null;
  const name = config.relu_layers[at] ?? "";
  const channels = network.values.get(name)?.nchw[1] ?? 0;
  const count =
    channels > 1 ? `${Math.round(share * channels)} of ${channels}` : formatPercent(share);
  return (
    <p class="nbg-learning-line" data-line="dead">
      <span class="nbg-second">Dead units</span> {count}{" "}
      <span class="nbg-second">of {name} are 0 for the whole batch</span>
    </p>
  );
}
