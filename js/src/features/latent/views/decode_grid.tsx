// The plane as a grid of decoded pictures, decoded one by one while the ring is at rest, and cached for recurring
// planes.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { displayStyle } from "../../../network/display_kind.ts";
import type { Value } from "../../../plan/schema.ts";
import { pointerOffset, useViews } from "../../../views/context.ts";
import { useColorRange } from "../../../views/maps.tsx";
import type { LatentRecord } from "../../sources/records.ts";
import { createDecodeSession, type DecodeSession, type DrawOptions } from "./decode_session.ts";
import {
  cellAtPoint,
  cellCenter,
  codeAtPoint,
  GRID_CELLS,
  type LatentPlane,
  type PlanePoint,
} from "./latent_plane.ts";
import { clamp } from "./vector_math.ts";

/** The ring is at rest after this long without movement. */
const SETTLE_DELAY_MS = 250;
/** Time budget for decoding before the page gets an animation frame. */
const FRAME_BUDGET_MS = 8;
const MAX_CACHED_GRIDS = 6;
/** Maximum side of a cell's picture in pixels. */
const MAX_CELL_SIDE = 64;

interface DecodeGridProps {
  source: LatentRecord;
  plane: LatentPlane;
  point: PlanePoint;
  /** The decoder's output; undefined if there is none. */
  output: Value | undefined;
  move: (to: PlanePoint) => void;
}

/** The decoded cells of one plane. */
interface CachedGrid {
  readonly pixels: HTMLCanvasElement;
  readonly decodedCells: Set<number>;
}

export function DecodeGrid(props: DecodeGridProps) {
  const { output } = props;
  const drawMode = output && displayStyle(output).drawMode;
  if (output === undefined || drawMode === undefined) {
    return (
      <figcaption class="nbg-second">
        The decoder output is not a picture, so there is no grid.
      </figcaption>
    );
  }
  return <GridCells {...props} output={output} drawMode={drawMode} />;
}

function GridCells(props: DecodeGridProps & { output: Value; drawMode: DrawOptions["drawMode"] }) {
  const { source, plane, point, output, drawMode, move } = props;
  const views = useViews();
  const { state, theme } = views;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [count, setCount] = useState(0);
  const [trouble, setTrouble] = useState("");
  const moved = useRef({ at: 0, point });
  if (`${moved.current.point}` !== `${point}`) moved.current = { at: performance.now(), point };
  const decodeSession = useDecodeSession();
  const [, channels, mapHeight, mapWidth] = output.nchw;
  const curve = drawMode === "curves";
  const [height, width] = curve ? [21, 42] : [mapHeight, mapWidth];
  const scale = curve ? 1 : Math.min(1, MAX_CELL_SIDE / Math.max(height, width));
  const [high, wide] = [
    Math.max(1, Math.round(height * scale)),
    Math.max(1, Math.round(width * scale)),
  ];
  const range = useColorRange(output);
  const all = drawMode === "rgb" || drawMode === "classes";
  const drawn: DrawOptions = {
    key: output.key,
    image: 0,
    channels: all ? Array.from({ length: channels }, (_, k) => k) : [0],
    columns: 1,
    gap: 0,
    scale,
    colormap: state.colormap.value,
    theme: theme.value,
    range,
    drawMode,
    curveSize: curve ? [wide, high] : undefined,
  };
  const words = JSON.stringify(drawn);
  const name = [source.input, plane.name, plane.xAxis.low, plane.yAxis.low, words].join();
  const epoch = decodeSession.epoch;
  const sheets = useRef({ epoch, of: new Map<string, CachedGrid>() });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the name says all that a sheet depends on
  useLayoutEffect(() => {
    if (sheets.current.epoch !== epoch) sheets.current = { epoch, of: new Map() };
    const grid = getCachedGrid(sheets.current.of, name, GRID_CELLS * wide, GRID_CELLS * high);
    const show = (): void => {
      setCount(grid.decodedCells.size);
      const paper = canvas.current?.getContext("2d");
      paper?.clearRect(0, 0, GRID_CELLS * wide, GRID_CELLS * high);
      paper?.drawImage(grid.pixels, 0, 0);
    };
    show();
    setTrouble("");
    let wanted = true;
    const decode = async (): Promise<void> => {
      const scratch = document.createElement("canvas");
      let since = 0;
      for (let cell = 0; cell < GRID_CELLS * GRID_CELLS && wanted; cell++) {
        if (grid.decodedCells.has(cell)) continue;
        while (wanted && performance.now() - moved.current.at < SETTLE_DELAY_MS)
          await delay(SETTLE_DELAY_MS / 2);
        if (performance.now() - since > FRAME_BUDGET_MS) {
          await nextFrame();
          since = performance.now();
        }
        const [column, row] = [cell % GRID_CELLS, Math.floor(cell / GRID_CELLS)];
        const code = codeAtPoint(plane, cellCenter(plane, column, row));
        if (!wanted || !(await decodeSession.draw(source.input, code, drawn, scratch))) return;
        const paper = grid.pixels.getContext("2d");
        paper?.drawImage(scratch, column * wide, row * high, wide, high);
        grid.decodedCells.add(cell);
        if (wanted) show();
      }
    };
    decode().catch((error: unknown) => {
      if (wanted) setTrouble(error instanceof Error ? error.message : String(error));
    });
    return () => {
      wanted = false;
    };
  }, [name, epoch, decodeSession]);

  const click = (event: MouseEvent): void => {
    const box = place.current;
    if (box === null) return;
    const { left, top } = pointerOffset(box, event, views);
    const at = (part: number, length: number) =>
      clamp(Math.floor((GRID_CELLS * part) / length), 0, GRID_CELLS - 1);
    move(cellCenter(plane, at(left, box.clientWidth), at(top, box.clientHeight)));
  };
  const marked = cellAtPoint(plane, point);
  const cellStyle = marked && {
    left: `${(100 * marked[0]) / GRID_CELLS}%`,
    top: `${(100 * marked[1]) / GRID_CELLS}%`,
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the ring has the keys */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the same */}
      <div class="nbg-latent-cells nbg-latent-moves" ref={place} onClick={click}>
        <canvas
          ref={canvas}
          width={GRID_CELLS * wide}
          height={GRID_CELLS * high}
          role="img"
          aria-label={`Decoded pictures of ${GRID_CELLS} × ${GRID_CELLS} points of the plane`}
          data-done={count}
        />
        {cellStyle && <span class="nbg-latent-cell" style={cellStyle} />}
      </div>
      <figcaption class="nbg-second">
        {trouble === "" ? "Decoded on a grid over the same plane" : `No grid: ${trouble}`}
        {trouble === "" &&
          count < GRID_CELLS * GRID_CELLS &&
          `, ${count} of ${GRID_CELLS * GRID_CELLS}`}
      </figcaption>
    </>
  );
}

function getCachedGrid(
  cachedGrids: Map<string, CachedGrid>,
  gridKey: string,
  width: number,
  height: number,
): CachedGrid {
  const known = cachedGrids.get(gridKey);
  cachedGrids.delete(gridKey);
  const grid = known ?? {
    pixels: document.createElement("canvas"),
    decodedCells: new Set<number>(),
  };
  if (known === undefined) Object.assign(grid.pixels, { width, height });
  cachedGrids.set(gridKey, grid); // most recently used
  for (const old of cachedGrids.keys())
    if (cachedGrids.size > MAX_CACHED_GRIDS) cachedGrids.delete(old);
  return grid;
}

/** A decode session for the life of the view; a new epoch re-renders the view. */
function useDecodeSession(): DecodeSession {
  const { state } = useViews();
  const decodeSession = useMemo(() => createDecodeSession(state), [state]);
  const [, setEpoch] = useState(decodeSession.epoch);
  useLayoutEffect(() => {
    const stop = decodeSession.onChange(() => setEpoch(decodeSession.epoch));
    return () => {
      stop();
      decodeSession.dispose();
    };
  }, [decodeSession]);
  return decodeSession;
}

const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Wait for an animation frame, or 100 ms: a hidden page has no frames. */
const nextFrame = (): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, 100);
    requestAnimationFrame(() => {
      clearTimeout(timer);
      resolve();
    });
  });
