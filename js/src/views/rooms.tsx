// Rooms: views whose code comes behind the first picture. A page has each of them once, for all its Viewers.
import { computed, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type MakeEdits, offerEdits } from "../gl/editing.ts";
import {
  type MakeFeeding,
  type MakeScores,
  offerFeeding,
  offerProfile,
  offerScores,
  type Profiling,
} from "../gl/offers.ts";
import type { ROOMS } from "../messages.ts";
import { offerSources, type RunSources } from "../sources/offer.ts";
import { offerTraining, type RunTraining } from "../training/offer.ts";
import { useViews } from "./context.ts";

export type RoomName = (typeof ROOMS)[number];

/** What a room's file exports (`room.ts` in its folder): components, and their style sheet. */
export interface RoomExports {
  readonly style: string;
}

const here = signal<Partial<Record<RoomName, RoomExports>>>({});

/** Opens a room that has come: views that wait for it show it. */
export function openRoom(name: RoomName, room: RoomExports): void {
  if ("Edits" in room) offerEdits(room.Edits as MakeEdits); // no view, but what sessions edit with
  if ("Feeding" in room) offerFeeding(room.Feeding as MakeFeeding);
  if ("profile" in room) offerProfile(room.profile as Profiling);
  if ("Scores" in room) offerScores(room.Scores as MakeScores);
  if ("runSources" in room) offerSources(room.runSources as RunSources);
  if ("runTraining" in room) offerTraining(room.runTraining as RunTraining);
  here.value = { ...here.peek(), [name]: room };
}

/** The style sheets of all rooms that are here. */
export const roomStyles = computed(() =>
  Object.values(here.value)
    .map((room) => room.style)
    .join("\n"),
);

/** A room's components where it is here: for what is only added to a view. */
export const roomOf = <Exports extends RoomExports>(name: RoomName): Exports | undefined =>
  here.value[name] as Exports | undefined;

/** What a room shows, `<Room<typeof graph> name="graph">`; while it is not here, why. */
export function Room<Exports extends RoomExports>(props: {
  name: RoomName;
  children: (room: Exports) => ComponentChildren;
}) {
  const { state } = useViews();
  const room = here.value[props.name];
  if (room !== undefined) return <>{props.children(room as Exports)}</>;
  const why = state.roomTrouble.value;
  return (
    <p class="nbg-note" data-room={props.name} role="status">
      {why === "" ? "This view’s code is on its way from Python." : why}
    </p>
  );
}
