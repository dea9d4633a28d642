// A slot in the views that features fill.
import type { FunctionComponent } from "preact";
import type { Slots } from "../features/feature.ts";
import { useViews } from "./context.ts";

/** Whether a feature of this viewer fills a slot. */
export const useIsSlotFilled = (name: keyof Slots): boolean =>
  useViews().features.some(({ slots }) => slots?.[name] !== undefined);

/** The components that this viewer's features put into a slot, in feature order. */
export function Slot<S extends keyof Slots>(props: { name: S; slotProps: Slots[S] }) {
  const { name, slotProps } = props;
  return (
    <>
      {useViews().features.map((feature) => {
        const Filling = feature.slots?.[name] as FunctionComponent<Slots[S]> | undefined;
        return Filling && <Filling key={feature.name} {...slotProps} />;
      })}
    </>
  );
}
