// A tensor read from the GPU, and index arithmetic for its elements.

export interface Tensor {
  readonly key: string;
  readonly shape: readonly number[];
  /** Row-major. */
  readonly data: Float32Array;
}

/** The tensors of one run, by key. */
export type Tensors = ReadonlyMap<string, Tensor>;

/** An element; NaN out of range, which makes a mistake visible. */
export const element = (data: ArrayLike<number>, index: number): number =>
  data[index] ?? Number.NaN;

/** The coordinates of an element, one for each axis. */
export function coordinates(shape: readonly number[], index: number): number[] {
  const found = new Array<number>(shape.length).fill(0);
  let rest = index;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const length = shape[axis] ?? 1;
    found[axis] = rest % length;
    rest = Math.floor(rest / length);
  }
  return found;
}

/** The row-major index of an element. */
export const flatIndex = (shape: readonly number[], coords: readonly number[]): number =>
  shape.reduce((index, length, axis) => index * length + (coords[axis] ?? 0), 0);

/** The number of elements. */
export const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((size, length) => size * length, 1);
