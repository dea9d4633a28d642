// The gradient of a pool of largest elements: each pixel takes that of every window whose largest element it is. x0 says
// which that is, by its number in the map; x1 is the gradient of the pool's output.
// u_kernel, u_stride, u_dilation and u_padding (before) of depth, rows and columns; u_size of the input and u_places
// of the output are as many. ADAPTIVE: windows are the shares of adaptive_bins.glsl.
vec4 pixel(ivec4 at) {
  int slice = quotient(at.z, u_size.y);
  ivec3 here = ivec3(slice, at.z - slice * u_size.y, at.w), size = u_size, places = u_places, low, high;
  for (int d = 0; d < 3; d++) {
#if ADAPTIVE
    low[d] = quotient(here[d] * places[d], size[d]);
    high[d] = quotient((here[d] + 1) * places[d] - 1, size[d]);
#else
    int reach = here[d] + u_padding[d], span = (u_kernel[d] - 1) * u_dilation[d];
    low[d] = reach <= span ? 0 : quotient(reach - span + u_stride[d] - 1, u_stride[d]);
    high[d] = min(quotient(reach, u_stride[d]), places[d] - 1);
#endif
  }
  vec4 own = vec4((here.x * size.y + here.y) * size.z + here.z), sum = vec4(0.0);
  for (int z = low.x; z <= high.x; z++)
  for (int y = low.y; y <= high.y; y++)
  for (int x = low.z; x <= high.z; x++) {
    ivec4 place = ivec4(at.xy, z * places.y + y, x);
    bvec4 mine = equal(texel(x0, u.x[0], place), own);
    // No product: what other pixels have may be infinite.
    if (any(mine)) sum += mix(vec4(0.0), texel(x1, u.x[1], place), mine);
  }
  return sum;
}
