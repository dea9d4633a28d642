// What tests/views/test_views.py calls in a browser: the views over a real session.
import { effect, signal } from "@preact/signals";
import { createElement, Fragment, options } from "preact";
import { pageStore } from "../src/engine/page_store.ts";
import { EditListeners } from "../src/features/edits/views/edit_listeners.tsx";
import { Manipulations } from "../src/features/edits/views/manipulate/manipulations_view.tsx";
import { FEATURES } from "../src/features/index.ts";
import { runSources } from "../src/features/sources/source_runner.ts";
import { beforeEditsKey } from "../src/plan/derived_values.ts";
import type { Edit } from "../src/plan/edits.ts";
import { parsePlan } from "../src/plan/plan_file.ts";
import type { DrawJob, Session } from "../src/plan/runtime.ts";
import { createState } from "../src/state.ts";
import { statuses } from "../src/status.ts";
import { mount } from "../src/views/app.tsx";
import { useViews } from "../src/views/context.ts";
import { MIN_PRESENTATION_ZOOM, presentationZoom } from "../src/views/presentation_mode.tsx";
import { type GlDevice, openDevice } from "../src/webgl/gl_device.ts";
import { createSession } from "../src/webgl/session.ts";
import { recordDocument, restoreDocument } from "./document_leaks.ts";
import { waitForIdle, watchTimers, whenAnimationsEnd } from "./page_idle.ts";

watchTimers();

/** The key of the input whose manipulations stand below the network, as in the drawer; "" for none. */
const manipulated = signal("");
function WithManipulations() {
  const network = useViews().network.value;
  const input = manipulated.value;
  const own = EditListeners();
  if (network === null || input === "") return own;
  return createElement(Fragment, {}, [own, createElement(Manipulations, { network, input })]);
}
const { vnode } = options;
options.vnode = (made) => {
  if (made.type === EditListeners) made.type = WithManipulations;
  vnode?.(made);
};
type Parsed = ReturnType<typeof parsePlan>;
/** The page's graphics device, and the last session on it: its programs are there for the next one. */
let device: GlDevice | undefined;
let spare: Session | undefined;

/** The views, their state and a session: all that tests call, and an end that leaves nothing. */
function startPage() {
  const state = createState(FEATURES);
  /** What ends with it, in the order in which it began. */
  const ends: (() => void)[] = [];
  const sessions: Session[] = [];
  const calls = { drawn: [] as string[], batches: 0, runs: 0, asked: 0, answered: 0 };
  /** Arrays that edits inject, by their hash. */
  const arrays = new Map<string, Float32Array>();
  /** For a session beside the one that is shown. */
  let planUrl = "";
  const written = new Map<string, Float32Array>();

  /** What ends once: when it is called, or with all else. */
  function ending(stop: () => void): () => void {
    let ended = false;
    const once = () => {
      if (!ended) stop();
      ended = true;
    };
    ends.push(once);
    return once;
  }

  /** A session that can be disposed again when all ends. */
  async function made({ plan, uniforms, getWeight }: Parsed): Promise<Session> {
    const session = await createSession(device as GlDevice, plan, uniforms, getWeight);
    const { dispose } = session;
    let disposed = false;
    session.dispose = () => {
      if (!disposed) dispose.call(session);
      disposed = true;
    };
    sessions.push(session);
    return session;
  }

  /** The session, and a record of what the views ask of it. */
  function watched(session: Session): Session {
    const asked = <T>(answer: Promise<T>): Promise<T> => {
      calls.asked++;
      return answer.finally(() => calls.answered++);
    };
    return {
      ...session,
      get sequence() {
        return session.sequence;
      },
      draw(jobs: readonly DrawJob[]) {
        for (const job of jobs) calls.drawn.push(job.key);
        calls.batches++;
        session.draw(jobs);
      },
      run(options) {
        calls.runs++;
        return session.run(options);
      },
      get canvasTransfer() {
        return session.canvasTransfer;
      },
      set canvasTransfer(way) {
        session.canvasTransfer = way;
      },
      get rangeSmoothing() {
        return session.rangeSmoothing;
      },
      set rangeSmoothing(pace) {
        session.rangeSmoothing = pace;
      },
      colorLimits: (...given) => asked(session.colorLimits(...given)),
      read: (key) => asked(session.read(key)),
      topk: (...given) => asked(session.topk(...given)),
      argmax: (...given) => asked(session.argmax(...given)),
      statistics: (key, image) => asked(session.statistics(key, image)),
      histogram: (...given) => asked(session.histogram(...given)),
      countClipped: (...given) => asked(session.countClipped(...given)),
    };
  }

  async function open(url: string, inputs: readonly string[]): Promise<void> {
    const parsed = parsePlan(await (await fetch(url)).arrayBuffer());
    const { plan } = parsed;
    planUrl = url;
    state.plan.value = plan;
    device ??= openDevice();
    state.capabilities.value = device.capabilities;
    const session = watched(await made(parsed));
    spare?.dispose();
    spare = undefined;
    for (const [i, { key }] of plan.inputs.entries()) {
      const bytes = Uint8Array.from(atob(inputs[i] ?? ""), (c) => c.charCodeAt(0));
      written.set(key, new Float32Array(bytes.buffer));
      session.write(key, new Float32Array(bytes.buffer));
    }
    state.session.value = session;
    state.run.value = await session.run();
    state.status.value = statuses.ready();
    follow(session);
  }

  /** As the engine does: a run with the edits of now; of several that wait, the last ones. */
  function follow(session: Session): void {
    let wanted: readonly Edit[] | null = null;
    let busy = false;
    const bring = async (): Promise<void> => {
      busy = true;
      while (wanted !== null) {
        const edits: readonly Edit[] = wanted;
        wanted = null;
        await session.setEdits(edits, arrayOf);
        state.run.value = await session.run();
      }
      busy = false;
    };
    let first = true;
    const stop = effect(() => {
      const edits = (state.areEditsBypassed.value ? state.featureEdits : state.engineEdits).value;
      if (!first) wanted = edits;
      first = false;
      if (wanted !== null && !busy) void bring();
    });
    ending(stop);
  }

  /** One that edits inject, or the page's store has. */
  function arrayOf(hash: string): Float32Array {
    const data = pageStore().get(hash);
    const own = data && new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
    return arrays.get(hash) ?? own ?? new Float32Array();
  }

  /** What sources ask for, and what Python would be told. */
  const fed = {
    blobs: new Map<string, Uint8Array<ArrayBuffer>>(),
    asked: [] as string[],
    dropped: [] as string[],
    told: [] as boolean[],
    count: 0,
  };

  /** As an engine and its client do: sources feed the session, and ask for blobs of `fed.blobs`. */
  function feeds(): () => void {
    state.feeder.value = {
      pageId: "here",
      async feed(given) {
        const session = state.session.peek();
        if (session === null || given === null) return;
        const { key, data, picture, mirrored = false } = given;
        if (data !== undefined) session.write(key, data);
        else if (picture !== undefined) session.feed(key, picture, mirrored);
        state.run.value = await session.run();
        fed.count++;
      },
      read: (key) =>
        state.session.peek()?.read(beforeEditsKey(key)) ?? Promise.reject(new Error("none")),
      async blob(name) {
        fed.asked.push(name);
        fed.dropped = fed.dropped.filter((one) => one !== name);
        await new Promise((done) => setTimeout(done, 5));
        if (fed.dropped.includes(name)) throw new Error("dropped");
        const found = fed.blobs.get(name);
        if (found === undefined) throw new Error(`there is no ${name}`);
        return found;
      },
      release: (name) => fed.dropped.push(name),
      reportFedInput: (still) => fed.told.push(still),
    };
    return ending(runSources(state));
  }

  /** A blob from base64. */
  const put = (name: string, text: string): void => {
    fed.blobs.set(
      name,
      Uint8Array.from(atob(text), (c) => c.charCodeAt(0)),
    );
  };

  /** An input's numbers before it is edited, as base64. */
  async function input(key: string): Promise<string> {
    const found = (await state.feeder.value?.read(key)) ?? new Float32Array();
    const bytes = new Uint8Array(found.slice().buffer);
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
  }

  function show(): () => void {
    const place = document.createElement("div");
    document.body.append(place);
    const dispose = mount(place, state, FEATURES);
    return ending(() => {
      dispose();
      place.remove();
    });
  }

  /** Another input, as a source gives them. */
  async function feed(key: string, text: string): Promise<void> {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const session = state.session.peek();
    session?.write(key, new Float32Array(bytes.buffer));
    if (session) state.run.value = await session.run();
  }

  /** The graphics device, which outlives all that is shown. */
  const graphics = () => device as GlDevice;
  const alive = () => ({ ...device?.liveObjects });

  /** Waits until all questions are answered, and nothing is drawn any more or is about to be. */
  const quiet = (): Promise<void> =>
    waitForIdle(() => (calls.answered < calls.asked ? null : calls.batches + calls.answered));

  const manipulations = (input: string): void => {
    manipulated.value = input;
  };

  /** Sources, with a way to try codes beside the network: a latent opens its workbench in the drawer. */
  function bench(): () => void {
    state.forkSession.value = async () => {
      const twin = await made(parsePlan(await (await fetch(planUrl)).arrayBuffer()));
      for (const [key, data] of written) twin.write(key, data);
      return twin;
    };
    return feeds();
  }

  /** What is shown, runs and is held ends; what stays of it all the same. */
  async function end(): Promise<string[]> {
    for (const one of ends.reverse()) one();
    spare?.dispose();
    [spare] = sessions;
    for (const session of sessions.slice(1)) session.dispose();
    const lost = device !== undefined && graphics().gl.isContextLost();
    return [
      ...(lost ? ["a lost context"] : []),
      ...((await whenAnimationsEnd()) ? [] : ["a timer"]),
    ];
  }

  const sourced = { fed, feeds, put, input, bench };
  return {
    state,
    says: statuses,
    calls,
    arrays,
    alive,
    graphics,
    open,
    show,
    feed,
    quiet,
    manipulations,
    end,
    reset,
    ...sourced,
  };
}

let now = startPage();

/** All as in a new document, and what of the old one stays. */
async function reset(): Promise<string[]> {
  const ended = await now.end();
  manipulated.value = "";
  presentationZoom.value = MIN_PRESENTATION_ZOOM;
  const restored = restoreDocument();
  now = startPage();
  Object.assign(globalThis, { views: now });
  return [...ended, ...restored];
}

Object.assign(globalThis, { views: now });
recordDocument();
