"""The signed colour map, computed from its stops: the reference for pictures of maps."""

import numpy as np

# design/README.md, section 2: from most negative through zero to most positive.
SIGNED_STOPS = {
    "light": "6b2b00 c0560c f09a4a fbd9b3 ffffff c3ddf3 6fa8d8 2a6cb0 0b2f63",
    "dark": "ffd093 f2953a a8570c 4a290b 0f1216 123a63 216bab 4fa3ec b5dcff",
}
# The colour of NaN (hatched) and infinities.
NON_FINITE_COLOR = [255, 0, 255, 255]


def parse_colours(hex_colours: str) -> np.ndarray:
    return np.array([list(bytes.fromhex(word)) for word in hex_colours.split()], float)


def signed_colours(values: np.ndarray, max_magnitude: float, theme: str = "light") -> np.ndarray:
    """Colours of the signed map: its stops, interpolated in linear light."""
    s = parse_colours(SIGNED_STOPS[theme]) / 255
    linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
    place = np.clip(values / max_magnitude, -1, 1) * 4 + 4
    mixed = np.stack([np.interp(place, np.arange(9), linear[:, k]) for k in range(3)], -1)
    return 255 * np.where(mixed <= 0.0031308, mixed * 12.92, 1.055 * mixed ** (1 / 2.4) - 0.055)
