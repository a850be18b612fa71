/** Computes how much of an LMDB file is in use from the records of its tables. Reads a few pages, without LMDB. */
import { PageFile, type PageMeta, type PageTree } from './pages.ts';

/** The bytes of a file, and how many of them are free. */
interface FileUse {
  /**
   * Bytes up to the end of the last page. The file may be longer, because it keeps room for commits after that page.
   */
  readonly bytes: number;
  /** Bytes of the pages that are in no tree. */
  readonly freeBytes: number;
}

/** Pages that are in no tree: the two meta pages. */
const META_PAGES = 2;

/**
 * Computes how much of a file is in use. The file need not be checked before. Throws `PageDamage` and the system's
 * error.
 */
export function useOf(path: string): FileUse {
  const file = new PageFile(path, 'scattered');
  try {
    const meta = file.meta();
    const used = [meta.main, meta.free, ...tablesOf(file, meta)].reduce((sum, tree) => sum + pagesOf(tree), META_PAGES);
    return {
      bytes: (meta.lastPage + 1) * meta.pageBytes,
      freeBytes: Math.max(0, meta.lastPage + 1 - used) * meta.pageBytes,
    };
  } finally {
    file.close();
  }
}

/** The records of the tables. All of them fit in one page. */
function tablesOf(file: PageFile, { main }: PageMeta): readonly PageTree[] {
  const page = main.root === undefined ? undefined : file.treePage(main.root, main);
  return page?.kind === 'leaf' ? page.nodes.flatMap(({ tree }) => tree ?? []) : [];
}

function pagesOf({ branchPages, leafPages, overflowPages }: PageTree): number {
  return branchPages + leafPages + overflowPages;
}
