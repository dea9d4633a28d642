// The interface of a source kind: its texts and icon, the inputs it accepts, how it starts, and the code that runs it.
import type { Input } from "../../plan/schema.ts";
import type { ViewerState } from "../../state.ts";
import type { OpenSource, SourceInstance } from "./input_slot.ts";
import type { Source } from "./records.ts";
import type { SourceFailure } from "./state.ts";

/** Build a line of Python from a class name and arguments; arguments that are false are omitted. */
export type PythonCall = (name: string, ...parts: readonly (string | false)[]) => string;

/** A numeric field of the record that the drawer shows. */
export interface NumericField<S extends Source> {
  readonly name: { [F in keyof S]: S[F] extends number ? F : never }[keyof S];
  readonly label: string;
  readonly min?: number;
  readonly max?: number;
  readonly step: number;
}

export interface SourceKind<S extends Source> {
  /** The kind's name in the drawer. */
  readonly label: string;
  /** An SVG path of 16 by 16 pixels, and its stroke width if not the default. */
  readonly icon: string;
  readonly iconStroke?: number;
  /** The current source's name in the bar, if it differs from `label`. */
  readonly title?: (source: S) => string;
  /** The equivalent line of Python; "" if only a page can create the source. */
  readonly pythonLine: (source: S, call: PythonCall) => string;
  /** Title and text for each failure: the problem, the cause, the remaining options and the next step. */
  readonly failures?: Partial<Record<SourceFailure, readonly [title: string, text: string]>>;
  /** Whether the kind can feed this input. */
  readonly accepts: (input: Input) => boolean;
  /** Only Python creates this kind; a page can return to it. */
  readonly isPythonOnly?: true;
  /** The source starts when its name is clicked; others wait for a file or a click of their own. */
  readonly startsOnSelect?: true;
  /** The reader creates the content in the drawer, which opens with the source. */
  readonly opensDrawer?: true;
  /** The MIME type prefix of the kind's files, and the record fields for a file except owner and title. */
  readonly file?: { readonly type: string; readonly fields: Partial<S> };
  /** Record fields to reset when this page takes over another page's source, besides the owner. */
  readonly takeoverFields?: Partial<S>;
  /** Whether the source has a sequence of pictures. */
  readonly canPlay?: (source: S) => boolean;
  /**
   * The drawer's content for a kind without its own panel: a sentence, numeric fields, and the label of the `step`
   * button.
   */
  readonly description?: string;
  readonly numericFields?: readonly NumericField<S>[];
  readonly stepLabel?: string;
  /** Open a source that feeds its input. */
  readonly open?: OpenSource<S>;
  /** Open a source that feeds no input. */
  readonly openWithoutInput?: (state: ViewerState, source: S) => SourceInstance<S>;
}

export const CHOOSE_ANOTHER_TEXT = "choose another source";
export const acceptsPictures = ({ fit }: Input): boolean => fit !== "";
export const pythonString = (text: string): string => JSON.stringify(text);
