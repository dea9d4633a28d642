// The gradient of a pool of largest elements: each pixel takes that of every window whose largest element it is, the
// first of equal ones (as PyTorch). x0 is the pool's input, x1 its output, x2 the gradient of that.
// u_kernel, u_stride, u_dilation and u_padding (before) of depth, rows and columns; u_size of the input and u_places
// of the output are as many.
vec4 pixel(ivec4 at) {
  int slice = quotient(at.z, u_size.y);
  ivec3 here = ivec3(slice, at.z - slice * u_size.y, at.w);
  ivec3 kernel = u_kernel, stride = u_stride, dilation = u_dilation, begin = u_padding;
  ivec3 size = u_size, places = u_places;
  vec4 x = texel(x0, u.x[0], at), sum = vec4(0.0);
  ivec3 low, high;
  for (int d = 0; d < 3; d++) {
    int reach = here[d] + begin[d], span = (kernel[d] - 1) * dilation[d];
    low[d] = reach <= span ? 0 : quotient(reach - span + stride[d] - 1, stride[d]);
    high[d] = min(quotient(reach, stride[d]), places[d] - 1);
  }
  for (int z = low.x; z <= high.x; z++)
  for (int y = low.y; y <= high.y; y++)
  for (int w = low.z; w <= high.z; w++) {
    ivec3 from = ivec3(z, y, w) * stride - begin, step = here - from, tap = step / dilation;
    if (tap * dilation != step) continue;
    ivec4 place = ivec4(at.xy, z * places.y + y, w);
    vec4 largest = texel(x1, u.x[1], place);
    bvec4 mine = equal(x, largest);
    if (!any(mine)) continue;
    int mine_is = (tap.x * kernel.y + tap.y) * kernel.z + tap.z;
    for (int k = 0; k < mine_is && any(mine); k++) {
      int line = quotient(k, kernel.z), sheet = quotient(line, kernel.y);
      ivec3 p = from + ivec3(sheet, line - sheet * kernel.y, k - line * kernel.z) * dilation;
      if (any(lessThan(p, ivec3(0))) || any(greaterThanEqual(p, size))) continue;
      vec4 earlier = texel(x0, u.x[0], ivec4(at.xy, p.x * size.y + p.y, p.z));
      mine = bvec4(mine.x && earlier.x != largest.x, mine.y && earlier.y != largest.y,
                   mine.z && earlier.z != largest.z, mine.w && earlier.w != largest.w);
    }
    sum += mix(vec4(0.0), texel(x2, u.x[2], place), mine);
  }
  return sum;
}
