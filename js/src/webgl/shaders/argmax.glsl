// The channel with the largest value at each place of one image, the first of equal ones; -1 where one of them is NaN.
// Four places a texel.
layout(location = 0) out vec4 o0;

float likeliest(int place) {
  float best = 0.0, found = -1.0;
  for (int k = 0; k < u_channels; k++) {
    float v = flat_element(x0, u.x[0], (u_image * u_channels + k) * u_places + place);
    if (is_nan(v)) return -1.0;
    if (found < 0.0 || v > best) {
      best = v;
      found = float(k);
    }
  }
  return found;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int first = 4 * (p.y * u_width + p.x);
  o0 = vec4(-1.0);
  // A loop, since a call is inlined: one copy of the index arithmetic.
  for (int lane = 0; lane < min(4, u_places - first); lane++) {
    float found = likeliest(first + lane);
    if (lane == 0) o0.x = found; else if (lane == 1) o0.y = found; else if (lane == 2) o0.z = found; else o0.w = found;
  }
}
