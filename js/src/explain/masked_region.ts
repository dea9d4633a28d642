// Marked pixels of a picture: their outline and a text about them.
import type { FieldExtents } from "./field_extents.ts";
import type { Mask } from "./masks.ts";

interface BoundingBox {
  readonly top: number;
  readonly left: number;
  readonly rows: number;
  readonly columns: number;
}

/** Marked pixels of a picture of size `width` × `height`. */
export interface MaskedRegion {
  readonly mask: Mask;
  readonly width: number;
  readonly height: number;
  readonly markedCount: number;
  /** The bounding box; null if no pixel is marked. */
  readonly box: BoundingBox | null;
}

export function maskedRegion(mask: Mask, height: number, width: number): MaskedRegion {
  let markedCount = 0;
  let [top, left, bottom, right] = [height, width, -1, -1];
  for (const [i, one] of mask.entries()) {
    if (one === 0) continue;
    markedCount++;
    const [y, x] = [Math.floor(i / width), i % width];
    [top, left] = [Math.min(top, y), Math.min(left, x)];
    [bottom, right] = [Math.max(bottom, y), Math.max(right, x)];
  }
  const box = markedCount ? { top, left, rows: bottom - top + 1, columns: right - left + 1 } : null;
  return { mask, width, height, markedCount, box };
}

/** An SVG path around the marked pixels, each `pixelHeight` high and `pixelWidth` wide; holes are outlined too. */
export function outlinePath(
  { mask, width, height, box }: MaskedRegion,
  pixelHeight: number,
  pixelWidth: number,
): string {
  if (box === null) return "";
  const at = (y: number, x: number): boolean =>
    x >= 0 && y >= 0 && x < width && y < height && mask[y * width + x] === 1;
  // The edges by start corner, as directions, clockwise around marked pixels.
  const stride = width + 1;
  const edges = new Map<number, number[]>();
  const edge = (y: number, x: number, direction: number): void => {
    const corner = y * stride + x;
    const own = edges.get(corner);
    if (own === undefined) edges.set(corner, [direction]);
    else own.push(direction);
  };
  for (let y = box.top; y < box.top + box.rows; y++) {
    for (let x = box.left; x < box.left + box.columns; x++) {
      if (!at(y, x)) continue;
      if (!at(y - 1, x)) edge(y, x, 0);
      if (!at(y, x + 1)) edge(y, x + 1, 1);
      if (!at(y + 1, x)) edge(y + 1, x + 1, 2);
      if (!at(y, x - 1)) edge(y + 1, x, 3);
    }
  }
  const steps = [1, stride, -1, -stride]; // right, down, left, up
  let path = "";
  for (const start of edges.keys()) {
    while ((edges.get(start)?.length ?? 0) > 0)
      path += traceOutline(edges, start, steps, stride, pixelHeight, pixelWidth);
  }
  return path;
}

function traceOutline(
  edgesByCorner: Map<number, number[]>,
  startCorner: number,
  cornerSteps: readonly number[],
  cornersPerRow: number,
  pixelHeight: number,
  pixelWidth: number,
): string {
  let path = `M${(startCorner % cornersPerRow) * pixelWidth} ${Math.floor(startCorner / cornersPerRow) * pixelHeight}`;
  let corner = startCorner;
  let before = -1;
  let far = 0;
  const line = (): string => {
    if (before < 0) return "";
    const sign = before < 2 ? 1 : -1;
    return before % 2 === 0 ? `h${sign * far * pixelWidth}` : `v${sign * far * pixelHeight}`;
  };
  do {
    const own = edgesByCorner.get(corner) ?? [];
    // Where two pixels touch at a corner, the sharper turn separates them.
    const turn = own.findIndex((direction) => before >= 0 && direction === (before + 1) % 4);
    const [direction] = own.splice(Math.max(0, turn), 1);
    if (direction === undefined) break;
    if (direction === before) far++;
    else {
      path += line();
      [before, far] = [direction, 1];
    }
    corner += cornerSteps[direction] ?? 0;
  } while (corner !== startCorner);
  return `${path}${line()}z`;
}

const sizeText = (rows: number, columns: number, isFlat: boolean): string =>
  isFlat ? String(columns) : `${rows}×${columns}`;

/**
 * The text for a receptive field, such as "5×5, stride 1; 5×3 of it inside x’s 32×32: y 0 to 4, x 0 to 2". `extents`:
 * the theoretical field, if known.
 */
export function receptiveFieldText(
  region: MaskedRegion,
  valueName: string,
  extents: FieldExtents | null,
): string {
  const { width, height, markedCount, box } = region;
  if (box === null) return `nothing of ${valueName}`;
  const flat = height === 1;
  const { top, left, rows, columns } = box;
  const places = (from: number, length: number): string =>
    length === 1 ? String(from) : `${from} to ${from + length - 1}`;
  const spans = `${flat ? "" : `y ${places(top, rows)}, `}x ${places(left, columns)}`;
  const size = `${valueName}’s ${sizeText(height, width, flat)}`;
  const own = sizeText(rows, columns, flat);
  const whole = markedCount === width * height;
  const theory = extents === null ? null : theoreticalSize(extents, flat);
  if (theory === null) return whole ? `all of ${valueName}` : `${own} of ${size}: ${spans}`;
  const larger = theory.rows > rows || theory.columns > columns;
  const smaller = theory.rows < rows || theory.columns < columns;
  const said = `${sizeText(theory.rows, theory.columns, flat)}, stride ${theory.strides}`;
  if (whole)
    return larger ? `${said}; all of ${size} lies inside it` : `${said}: all of ${valueName}`;
  if (smaller) return `${said}; ${own} of ${size} here, including repeated padding: ${spans}`;
  return larger ? `${said}; ${own} of it inside ${size}: ${spans}` : `${said}: ${spans} of ${size}`;
}

/** How many of the box's pixels are marked, if not all of them are: "45 of these 66 pixels". */
export function markedShareText({ markedCount, box }: MaskedRegion): string {
  const area = box === null ? 0 : box.rows * box.columns;
  return markedCount < area ? `${markedCount} of these ${area} pixels` : "";
}

/** The theoretical size of a field. */
function theoreticalSize(extents: FieldExtents, isFlat: boolean) {
  const sides = isFlat && extents.length === 1 ? [null, extents[0]] : extents;
  if (sides.length !== 2) return null;
  const [rows, columns] = sides.map((one) => (one ? one.high - one.low + 1 : 1));
  const strides = [...new Set(extents.map((one) => one.stride))].join("×");
  return { rows: rows ?? 1, columns: columns ?? 1, strides };
}
