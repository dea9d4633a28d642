// The keys, for whoever asks: `?`, or the button in the status line.
import { useViews } from "./context.ts";
import type * as list from "./help/room.ts";
import { Room } from "./rooms.tsx";

export function Keys() {
  const { help } = useViews();
  return help.value ? <Room<typeof list> name="help">{({ KeyList }) => <KeyList />}</Room> : null;
}

export function KeysButton() {
  const { help } = useViews();
  return (
    <button
      type="button"
      class="nbg-second nbg-underlined"
      aria-expanded={help.value}
      onClick={() => {
        help.value = !help.value;
      }}
    >
      Keys
    </button>
  );
}
