/** Planted bugs of redaction (I38). */
import type { PlantedBug } from './planted-bug.ts';

const INPUT = 'src/runtime/redaction/redacted-input.ts';

/** See the head of the file. */
export const redactionBugs: readonly PlantedBug[] = [
  {
    name: 'failure-not-redacted',
    what: 'the text of a failed tool call is stored as it is',
    file: 'src/runtime/redaction/redacted-tools.ts',
    find: 'content: redact(content),',
    replace: 'content: outcome.success ? redact(content) : content,',
  },
  {
    name: 'added-message-not-redacted',
    what: 'a message that an edit adds to the history is stored as it is',
    file: INPUT,
    find: 'const message = redactMessage(edit.message, redact);',
    replace: 'const { message } = edit;',
  },
  {
    name: 'draft-not-redacted',
    what: 'the draft of an answer has the text as it was streamed',
    file: 'src/runtime/redaction/redacted-models.ts',
    find: 'draft: redacted });',
    replace: 'draft });',
  },
  {
    name: 'continued-child-has-another-key',
    what: 'a request to continue the child of a key counts as another request with that key',
    file: INPUT,
    find: 'fingerprint: fingerprint(stableText(child))',
    replace: 'fingerprint: fingerprint(stableText(redacted))',
  },
];
