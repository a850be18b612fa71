/**
 * The losses of a history on its way to a language model of the AI SDK and back. Everything that is not in this table
 * arrives unchanged; the property test of the conversions and `docs/models.md` read the same table. Data only.
 */

/** One loss. `what`: the lost thing. `becomes`: its replacement for the model. */
export interface Loss {
  readonly id: string;
  readonly what: string;
  readonly becomes: string;
}

/** Every loss, by its id. */
export const LOSSES: readonly Loss[] = [
  { id: 'foreign-thought', what: 'thoughts of another model', becomes: 'left out' },
  { id: 'foreign-part', what: 'files and other parts that another model made', becomes: 'left out' },
  { id: 'foreign-metadata', what: 'metadata of another model: item ids, signatures', becomes: 'left out' },
  { id: 'server-tool', what: "calls and results of Anthropic's own tools", becomes: 'left out; text about them stays' },
  { id: 'last-thought', what: 'a thought at the end of an answer, with nothing after it', becomes: 'left out' },
  { id: 'citations', what: 'citations of a text, `cache_control`', becomes: 'left out' },
  { id: 'search-result', what: 'a search result', becomes: 'its title, source and text' },
  { id: 'document-text', what: 'a document of plain text or of blocks', becomes: 'its title, context and text' },
  { id: 'stored-file', what: 'a file that another provider keeps (`file_id`)', becomes: 'a text that names it' },
  {
    id: 'address',
    what: 'an image or file by an address that the model does not read',
    becomes: 'the address as text',
  },
  { id: 'failed-media', what: '`is_error` of a result with images or files', becomes: 'a text before them' },
  { id: 'result-media', what: 'images of a result, for chat completions', becomes: 'the next user message' },
  { id: 'call-id', what: 'an id of a call that the wire does not take', becomes: 'a hash of it' },
  { id: 'joined', what: 'neighbouring messages of one role', becomes: 'one message' },
  { id: 'source', what: "an answer's list of sources, requests for approval", becomes: 'left out' },
];
