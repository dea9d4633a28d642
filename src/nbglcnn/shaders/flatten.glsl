// Elements 4t..4t+3 of a tensor in row-major order, for reading back; i[0].x: width of the output in texels.
void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int first = (p.y * u.i[0].x + p.x) * 4;
  int last = u.x[0].frame.x * u.x[0].frame.y * u.x[0].frame.z * u.x[0].frame.w - 1;
  // Past the end the last element is repeated: a read outside the texture has no defined value.
  o0 = vec4(
    flat_element(x0, u.x[0], min(first, last)), flat_element(x0, u.x[0], min(first + 1, last)),
    flat_element(x0, u.x[0], min(first + 2, last)), flat_element(x0, u.x[0], min(first + 3, last)));
}
