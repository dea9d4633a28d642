// The live decoder output, an animated orbit around the plane's middle, and a button back to the data set.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { displayStyle } from "../../../network/display_kind.ts";
import type { Network } from "../../../network/network.ts";
import { formatPlural } from "../../../number_format.ts";
import type { Value } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";
import { ImageRange } from "../../../views/image_range.tsx";
import { isSkipped } from "../../../views/run_queries.ts";
import { ValuePicture } from "../../../views/value_picture.tsx";
import { makeSource } from "../../sources/local_sources.ts";
import type { ImagesRecord, LatentRecord } from "../../sources/records.ts";
import { type LatentCodes, nearestText } from "./latent_codes.ts";
import { codeAtPoint, type LatentPlane, type PlanePoint } from "./latent_plane.ts";

const OUTPUT_SIDE = 132;
const ORBIT_MS = 8000;
/** Orbit radius as a share of half the plane's side, if the ring is in the middle. */
const DEFAULT_ORBIT_RADIUS = 0.4;
const ORBIT_STEPS = 24;
/** Events on the pad, the grid or a slider that stop an orbit. */
const INTERRUPT_EVENTS = ["pointerdown", "keydown"] as const;

export function DecodedOutput(props: {
  network: Network;
  source: LatentRecord;
  output: Value | undefined;
  codes: LatentCodes | null;
  currentCode: readonly number[];
  plane: LatentPlane;
  point: PlanePoint;
  move: (code: readonly number[]) => void;
}) {
  const { network, source, output, codes, currentCode, plane, point, move } = props;
  const { state } = useViews();
  const [orbits, setOrbits] = useState(false);
  useOrbit(orbits, plane, point, move, () => setOrbits(false));
  /** With reduced motion, one step of the orbit per click. */
  const orbit = (): void => {
    if (!orbits && prefersReducedMotion())
      move(codeAtPoint(plane, circleThrough(plane, point)(1 / ORBIT_STEPS)));
    else setOrbits(!orbits);
  };
  const session = state.session.value;
  state.run.value; // subscribe to runs: each run updates the skipped layers
  const skipped = network.layers.filter(({ name }) => isSkipped(session, name));
  const near = nearestText(codes, currentCode);
  return (
    <div class="nbg-latent-decoded">
      {output !== undefined && (
        <ValuePicture
          value={output}
          width={OUTPUT_SIDE}
          height={OUTPUT_SIDE}
          minTileSide={28}
          showTopValues
        />
      )}
      <p>
        <strong>Decoded</strong>
        {near !== "" && <span class="nbg-second"> {near}</span>}
      </p>
      {output !== undefined && displayStyle(output).isImage && (
        <p class="nbg-second">
          <ImageRange value={output} />
        </p>
      )}
      {skipped.length > 0 && (
        <p class="nbg-second" title={skipped.map(({ name }) => name).join(", ")}>
          {formatPlural(skipped.length, "layer")} before {source.input}{" "}
          {skipped.length === 1 ? "is" : "are"} skipped
        </p>
      )}
      <button type="button" class="nbg-button" aria-pressed={orbits} onClick={orbit}>
        {orbits ? "Stop" : "Orbit"}
      </button>
      <button type="button" class="nbg-button" onClick={() => returnToDataSet(state)}>
        Back to data
      </button>
    </div>
  );
}

/**
 * Return to the latent's data set, at the previous item if it was the source before; without a data set, to the
 * original input.
 */
function returnToDataSet({
  source,
  pythonSources,
  plan,
}: ReturnType<typeof useViews>["state"]): void {
  const now = source.peek();
  const input = plan
    .peek()
    ?.inputs.find(
      ({ layer, dtype, shape }) => layer < 0 && dtype === "float32" && shape.length === 4,
    );
  if (now?.kind !== "latent" || now.items === "" || input === undefined) {
    source.value = null;
    return;
  }
  const { items, count, block_size, dtype } = now;
  const before = pythonSources
    .peek()
    .find((one): one is ImagesRecord => one.kind === "images" && one.data === items);
  const named = (part: "labels" | "classes") => (now[part] === "" ? "" : `${items}.${part}`);
  const [labels, classes] = [named("labels"), named("classes")];
  const of = { data: items, count, block_size, dtype, labels, classes };
  source.value = before
    ? { ...before, playing: false, owner: "" }
    : makeSource("images", input.key, of);
}

const prefersReducedMotion = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The circle around the plane's middle that starts at a point, as a function of the share of a full turn. */
function circleThrough(
  { xAxis, yAxis }: LatentPlane,
  startPoint: PlanePoint,
): (share: number) => PlanePoint {
  const middle: PlanePoint = [(xAxis.low + xAxis.high) / 2, (yAxis.low + yAxis.high) / 2];
  const half: PlanePoint = [(xAxis.high - xAxis.low) / 2, (yAxis.high - yAxis.low) / 2];
  const [x, y] = [(startPoint[0] - middle[0]) / half[0], (startPoint[1] - middle[1]) / half[1]];
  const far = Math.hypot(x, y);
  const radius = far > 0.05 ? Math.min(1, far) : DEFAULT_ORBIT_RADIUS;
  const first = Math.atan2(y, x);
  return (share) => {
    const angle = first + 2 * Math.PI * share;
    return [
      middle[0] + radius * half[0] * Math.cos(angle),
      middle[1] + radius * half[1] * Math.sin(angle),
    ];
  };
}

/** Animate the code along an orbit until the reader moves it. */
function useOrbit(
  isRunning: boolean,
  plane: LatentPlane,
  point: PlanePoint,
  move: (code: readonly number[]) => void,
  stop: () => void,
): void {
  const { root } = useViews();
  const now = useRef({ plane, point, move, stop });
  now.current = { plane, point, move, stop };
  // biome-ignore lint/correctness/useExhaustiveDependencies: another plane by its name is another circle
  useLayoutEffect(() => {
    if (!isRunning) return;
    const place = circleThrough(now.current.plane, now.current.point);
    const begun = performance.now();
    let frame = 0;
    const turn = (at: number): void => {
      now.current.move(codeAtPoint(now.current.plane, place(Math.max(0, at - begun) / ORBIT_MS)));
      frame = requestAnimationFrame(turn);
    };
    frame = requestAnimationFrame(turn);
    const motion = matchMedia("(prefers-reduced-motion: reduce)");
    const end = (): void => now.current.stop();
    const grab = ({ target }: Event): void => {
      const taken = target instanceof Element && target.closest(".nbg-latent-moves") !== null;
      if (taken) end();
    };
    motion.addEventListener("change", end);
    for (const name of INTERRUPT_EVENTS) root.addEventListener(name, grab, true);
    return () => {
      cancelAnimationFrame(frame);
      motion.removeEventListener("change", end);
      for (const name of INTERRUPT_EVENTS) root.removeEventListener(name, grab, true);
    };
  }, [isRunning, plane.name, root]);
}
