// What sources name in full and the bundle holds once, under names of one or two letters: build.js puts it in.
const { abs, ceil, floor, hypot, log, max, min, round, sqrt } = Math;
const { isFinite: finite, isInteger: integer, isNaN: nan } = Number;
const { isArray, from } = Array;
const { stringify } = JSON;
const now = () => performance.now();
let nothing: undefined;

export {
  abs as "Math.abs",
  ceil as "Math.ceil",
  finite as "Number.isFinite",
  floor as "Math.floor",
  from as "Array.from",
  hypot as "Math.hypot",
  integer as "Number.isInteger",
  isArray as "Array.isArray",
  log as "Math.log",
  max as "Math.max",
  min as "Math.min",
  nan as "Number.isNaN",
  nothing as UNDEFINED,
  now as "performance.now",
  round as "Math.round",
  sqrt as "Math.sqrt",
  stringify as "JSON.stringify",
};
