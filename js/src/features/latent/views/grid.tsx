// The plane as a grid of pictures, decoded one after the other while the ring rests; kept for planes that come again.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { displayOf } from "../../../network/display.ts";
import type { Value } from "../../../plan/schema.ts";
import { pointIn, useViews } from "../../../views/context.ts";
import { useRange } from "../../../views/maps.tsx";
import type { LatentRecord } from "../../sources/records.ts";
import { clamp } from "./numbers.ts";
import { CELLS, cellOf, cellPoint, codeOn, type Plane, type Point } from "./plane.ts";
import { createTries, type Drawn, type Tries } from "./tries.ts";

/** The ring rests when it has not moved for so long. */
const REST_MS = 250;
/** Pictures follow each other for so long, then the page draws a frame. */
const BUSY_MS = 8;
const MOST_SHEETS = 6;
/** Pixels of a cell's picture at most. */
const MOST_SIDE = 64;

interface Props {
  source: LatentRecord;
  plane: Plane;
  point: Point;
  /** What is decoded; undefined where there is nothing. */
  output: Value | undefined;
  move: (to: Point) => void;
}

/** All cells of one plane, as far as they are decoded. */
interface Sheet {
  readonly paper: HTMLCanvasElement;
  readonly done: Set<number>;
}

export function Grid(props: Props) {
  const { output } = props;
  const as = output && displayOf(output).drawn;
  if (output === undefined || as === undefined) {
    return (
      <figcaption class="nbg-second">
        What is decoded is no picture, so there is no grid of the plane.
      </figcaption>
    );
  }
  return <Cells {...props} output={output} as={as} />;
}

function Cells(props: Props & { output: Value; as: Drawn["as"] }) {
  const { source, plane, point, output, as, move } = props;
  const views = useViews();
  const { state, theme } = views;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [count, setCount] = useState(0);
  const [trouble, setTrouble] = useState("");
  const moved = useRef({ at: 0, point });
  if (`${moved.current.point}` !== `${point}`) moved.current = { at: performance.now(), point };
  const tries = useTries();
  const [, channels, mapHeight, mapWidth] = output.nchw;
  const curve = as === "curves";
  const [height, width] = curve ? [21, 42] : [mapHeight, mapWidth];
  const scale = curve ? 1 : Math.min(1, MOST_SIDE / Math.max(height, width));
  const [high, wide] = [
    Math.max(1, Math.round(height * scale)),
    Math.max(1, Math.round(width * scale)),
  ];
  const range = useRange(output);
  const all = as === "rgb" || as === "classes";
  const drawn: Drawn = {
    key: output.key,
    image: 0,
    channels: all ? Array.from({ length: channels }, (_, k) => k) : [0],
    columns: 1,
    gap: 0,
    scale,
    map: state.colormap.value,
    theme: theme.value,
    range,
    as,
    cell: curve ? [wide, high] : undefined,
  };
  const words = JSON.stringify(drawn);
  const name = [source.input, plane.name, plane.across.low, plane.up.low, words].join();
  const epoch = tries.epoch;
  const sheets = useRef({ epoch, of: new Map<string, Sheet>() });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the name says all that a sheet depends on
  useLayoutEffect(() => {
    if (sheets.current.epoch !== epoch) sheets.current = { epoch, of: new Map() };
    const sheet = sheetOf(sheets.current.of, name, CELLS * wide, CELLS * high);
    const show = (): void => {
      setCount(sheet.done.size);
      const paper = canvas.current?.getContext("2d");
      paper?.clearRect(0, 0, CELLS * wide, CELLS * high);
      paper?.drawImage(sheet.paper, 0, 0);
    };
    show();
    setTrouble("");
    let wanted = true;
    const decode = async (): Promise<void> => {
      const scratch = document.createElement("canvas");
      let since = 0;
      for (let cell = 0; cell < CELLS * CELLS && wanted; cell++) {
        if (sheet.done.has(cell)) continue;
        while (wanted && performance.now() - moved.current.at < REST_MS) await later(REST_MS / 2);
        if (performance.now() - since > BUSY_MS) {
          await frame();
          since = performance.now();
        }
        const [column, row] = [cell % CELLS, Math.floor(cell / CELLS)];
        const code = codeOn(plane, cellPoint(plane, column, row));
        if (!wanted || !(await tries.draw(source.input, code, drawn, scratch))) return;
        const paper = sheet.paper.getContext("2d");
        paper?.drawImage(scratch, column * wide, row * high, wide, high);
        sheet.done.add(cell);
        if (wanted) show();
      }
    };
    decode().catch((error: unknown) => {
      if (wanted) setTrouble(error instanceof Error ? error.message : String(error));
    });
    return () => {
      wanted = false;
    };
  }, [name, epoch, tries]);

  const click = (event: MouseEvent): void => {
    const box = place.current;
    if (box === null) return;
    const { left, top } = pointIn(box, event, views);
    const at = (part: number, length: number) =>
      clamp(Math.floor((CELLS * part) / length), 0, CELLS - 1);
    move(cellPoint(plane, at(left, box.clientWidth), at(top, box.clientHeight)));
  };
  const marked = cellOf(plane, point);
  const cellStyle = marked && {
    left: `${(100 * marked[0]) / CELLS}%`,
    top: `${(100 * marked[1]) / CELLS}%`,
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the ring has the keys */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the same */}
      <div class="nbg-latent-cells nbg-latent-moves" ref={place} onClick={click}>
        <canvas
          ref={canvas}
          width={CELLS * wide}
          height={CELLS * high}
          role="img"
          aria-label={`What ${CELLS} × ${CELLS} points of the plane become`}
          data-done={count}
        />
        {cellStyle && <span class="nbg-latent-cell" style={cellStyle} />}
      </div>
      <figcaption class="nbg-second">
        {trouble === "" ? "Decoded on a grid over the same plane" : `No grid: ${trouble}`}
        {trouble === "" && count < CELLS * CELLS && `, ${count} of ${CELLS * CELLS}`}
      </figcaption>
    </>
  );
}

function sheetOf(sheets: Map<string, Sheet>, name: string, width: number, height: number): Sheet {
  const known = sheets.get(name);
  sheets.delete(name);
  const sheet = known ?? { paper: document.createElement("canvas"), done: new Set<number>() };
  if (known === undefined) Object.assign(sheet.paper, { width, height });
  sheets.set(name, sheet); // the youngest
  for (const old of sheets.keys()) if (sheets.size > MOST_SHEETS) sheets.delete(old);
  return sheet;
}

/** What tries codes for as long as the view is there; drawn anew when their pictures are others. */
function useTries(): Tries {
  const { state } = useViews();
  const tries = useMemo(() => createTries(state), [state]);
  const [, setEpoch] = useState(tries.epoch);
  useLayoutEffect(() => {
    const stop = tries.onChange(() => setEpoch(tries.epoch));
    return () => {
      stop();
      tries.dispose();
    };
  }, [tries]);
  return tries;
}

const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** A hidden page draws none. */
const frame = (): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, 100);
    requestAnimationFrame(() => {
      clearTimeout(timer);
      resolve();
    });
  });
