// Colour controls of a view with maps: the colour map and its value range.
import type { ColorMapName } from "../plan/runtime.ts";
import type { RangeMode } from "../state.ts";
import { Choice, Select } from "./choice.tsx";
import { useViews } from "./context.ts";

const COLOR_MAP_ITEMS: readonly (readonly [ColorMapName, string])[] = [
  ["signed", "Signed"],
  ["viridis", "Viridis"],
  ["cividis", "Cividis"],
  ["magma", "Magma"],
  ["grey", "Grey"],
];
const RANGE_MODE_ITEMS: readonly (readonly [RangeMode, string])[] = [
  ["channel", "Channel"],
  ["layer", "Layer"],
  ["fixed", "Fixed"],
];

export function ColorMapSelect() {
  const { colormap } = useViews().state;
  return (
    <Select
      label="Colour"
      items={COLOR_MAP_ITEMS}
      selected={colormap.value}
      choose={(map) => {
        colormap.value = map;
      }}
    />
  );
}

export function RangeModeChoice({ showsCurves = false }: { showsCurves?: boolean }) {
  const { rangeMode, colormap, isSymmetric } = useViews().state;
  // Curves don't use the colour map.
  const signed = colormap.value === "signed" && !showsCurves;
  return (
    <>
      <div class="nbg-labelled">
        <span class="nbg-second">Range</span>
        <Choice
          label="Range"
          items={RANGE_MODE_ITEMS}
          selected={rangeMode.value}
          choose={(mode) => {
            rangeMode.value = mode;
          }}
        />
      </div>
      <label
        class="nbg-labelled"
        title={
          signed
            ? "the signed colour map is always symmetric around zero"
            : "makes the range symmetric around zero"
        }
      >
        <input
          type="checkbox"
          checked={signed || isSymmetric.value}
          disabled={signed}
          onChange={(event) => {
            isSymmetric.value = event.currentTarget.checked;
          }}
        />
        <span class="nbg-second">± around zero</span>
      </label>
    </>
  );
}
