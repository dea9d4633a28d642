// What the kinds of reduce.py call.

// The largest element is subtracted before exp() unless it is infinite: Inf - Inf is NaN.
vec4 finite(vec4 v) {
  return select(is_inf(v), vec4(0.0), v);
}

// The index of an element that equals the given extreme (NaN equals NaN), else what no index joins with.
vec4 chosen(vec4 v, vec4 given, vec4 index, uint none) {
  bvec4 nan = is_nan(v), extreme = is_nan(given), same = equal(v, given);
  vec4 no = vec4(uintBitsToFloat(none));
  return vec4(
    same.x || nan.x && extreme.x ? index.x : no.x, same.y || nan.y && extreme.y ? index.y : no.y,
    same.z || nan.z && extreme.z ? index.z : no.z, same.w || nan.w && extreme.w ? index.w : no.w);
}

// What is subtracted from the elements of a mean: none that could make an Inf or a NaN of a number.
vec4 anchor(vec4 v) {
  return select(lessThan(floatBitsToUint(v) & uvec4(0x7fffffffu), uvec4(0x7149f2cau)), v, vec4(0.0));  // 1e30
}
