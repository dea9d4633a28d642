// Where the largest element of each window lies: its number among all elements of the input, or with IN_MAP among those
// of its map; numbers as in pool.glsl.
// u_steps: what a step along depth, rows and columns adds to that number.
vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  vec4 best = vec4(uintBitsToFloat(0xff800000u)), index = vec4(0.0);
  ivec2 from = ivec2(ROW(at.z), at.w) * u_stride - u_padding;
  bool none = true;
#if DEPTH
  for (int kz = 0; kz < u_deep.x; kz++) {
  int slice = SLICE(at.z) * u_deep.y - u_deep.w + kz * u_deep.z;
  if (slice < 0 || slice >= u_slices) continue;
#else
  const int slice = 0;
#endif
  for (int ky = 0; ky < u_kernel.x; ky++) {
    int y = from.x + ky * u_dilation.x;
    if (y < 0 || y >= HEIGHT) continue;
    for (int kx = 0; kx < u_kernel.y; kx++) {
      int x = from.y + kx * u_dilation.y;
      if (x < 0 || x >= l.nchw.w) continue;
      vec4 v = texel(x0, l, ivec4(min(at.x, l.nchw.x - 1), at.y, slice * HEIGHT + y, x));
      // The first of equal ones, and the last NaN, as PyTorch has it.
      bvec4 more = greaterThan(v, best), bad = is_nan(v);
      bvec4 take = bvec4(none || more.x || bad.x, none || more.y || bad.y, none || more.z || bad.z, none || more.w || bad.w);
      float here = float(slice * u_steps.x + y * u_steps.y + x * u_steps.z);
      best = vec4(take.x ? v.x : best.x, take.y ? v.y : best.y, take.z ? v.z : best.z, take.w ? v.w : best.w);
      index = vec4(take.x ? here : index.x, take.y ? here : index.y, take.z ? here : index.z, take.w ? here : index.w);
      none = false;
    }
  }
#if DEPTH
  }
#endif
#if IN_MAP
  return index;
#else
  vec4 channel = float(at.x * l.nchw.y + at.y * 4) + vec4(0.0, 1.0, 2.0, 3.0);
  return channel * float(l.nchw.z * l.nchw.w) + index;
#endif
}
