// Adaptive pools cut a map into shares that may overlap by a pixel: `size` pixels for so many `places`. Axes are depth,
// rows and columns; slices of a volume lie one below the other.

// The pixels of one place's share, from x to before y.
ivec2 share(int place, int size, int places) {
  return ivec2(quotient(place * size, places), quotient((place + 1) * size + places - 1, places));
}
