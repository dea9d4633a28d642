// Page controls for long lists.
export function Pagination(props: { page: number; pageCount: number; go: (page: number) => void }) {
  const { page, pageCount, go } = props;
  return (
    <div class="nbg-pages">
      <button type="button" class="nbg-button" disabled={page === 0} onClick={() => go(page - 1)}>
        Previous
      </button>
      <span>
        Page {page + 1} of {pageCount}
      </span>
      <button
        type="button"
        class="nbg-button"
        disabled={page === pageCount - 1}
        onClick={() => go(page + 1)}
      >
        Next
      </button>
    </div>
  );
}
