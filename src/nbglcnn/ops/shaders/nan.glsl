// NaN and Inf by their bits: comparisons with NaN are folded away by some compilers.
bvec4 is_nan(vec4 v) { return greaterThan(floatBitsToUint(v) & uvec4(0x7fffffffu), uvec4(0x7f800000u)); }
bvec4 is_inf(vec4 v) { return equal(floatBitsToUint(v) & uvec4(0x7fffffffu), uvec4(0x7f800000u)); }
vec4 larger(vec4 a, vec4 b) {  // NaN when either is
  bvec4 n = is_nan(a), g = greaterThan(a, b);
  return vec4(g.x || n.x ? a.x : b.x, g.y || n.y ? a.y : b.y, g.z || n.z ? a.z : b.z, g.w || n.w ? a.w : b.w);
}
vec4 smaller(vec4 a, vec4 b) {
  bvec4 n = is_nan(a), g = lessThan(a, b);
  return vec4(g.x || n.x ? a.x : b.x, g.y || n.y ? a.y : b.y, g.z || n.z ? a.z : b.z, g.w || n.w ? a.w : b.w);
}
